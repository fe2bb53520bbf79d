package group

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Why members join and leave stands in the log (KIP-800), cut to 255 characters; from
// clients whose version has no reason, that none was given.
func TestReasonsAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	config := DefaultConfig()
	config.InitialRebalanceDelayMs = 0
	config.NewMemberSuffix = func() string { return "1" }
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	steps, err := coord.NewSteps(NewMachine(&config), coordtest.NewLog(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	logged := func(what, want string, run func(m *Machine, turn *coord.Turn)) {
		t.Helper()
		log.Reset()
		if err := steps.Turn(1, 1, run); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s: %q is not in\n%s", what, want, log.String())
		}
	}
	join := func(version int16, group string, reason *string) func(*Machine, *coord.Turn) {
		return func(m *Machine, turn *coord.Turn) {
			instance := "i" // joins at once, in every version
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.Reason, req.InstanceID = version, group, "consumer", 10_000, reason, &instance
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			m.JoinGroup(turn, Client{ID: "c"}, req, func(*kmsg.JoinGroupResponse) {})
		}
	}
	leave := func(group string, reason *string) func(*Machine, *coord.Turn) {
		return func(m *Machine, turn *coord.Turn) {
			m.LeaveGroup(turn, group, []kmsg.LeaveGroupRequestMember{{MemberID: "i-1", Reason: reason}}, func(*kmsg.LeaveGroupResponse) {})
		}
	}
	text, long := "a consumer that has had enough", strings.Repeat("x", 300)
	logged("join v8", text, join(8, "a", &text))
	logged("leave", text, leave("a", &text))
	logged("join v7", defaultReasonOfOldClient, join(7, "b", &text))
	logged("leave without", defaultReasonOfOldClient, leave("b", nil))
	logged("a long one", long[:255]+`"`, join(9, "c", &long))
}
