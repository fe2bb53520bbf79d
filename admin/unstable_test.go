package admin

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/meta"
	"kaas/policy"
)

// deleteTopicsV7 encodes what kmsg can't: v6 with validate_only before the tagged
// fields, and tagged fields that nobody knows.
func deleteTopicsV7(validateOnly bool, names ...string) []byte {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = 20_000
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	request.SetVersion(6)
	body := request.AppendTo(nil)
	flag := byte(0)
	if validateOnly {
		flag = 1
	}
	return append(slices.Insert(body, len(body)-1, flag)[:len(body)], 1, 9, 2, 'x', 'y') // one tag: number 9, two bytes
}

func TestDeleteTopicsV7(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{policies: Policies{DeleteTopic: mustCompile(t, policy.DeleteTopic, `topic == "kept" ? "No." : ""`)}})
	h.mustCreate("a", 1)
	h.mustCreate("kept", 1)
	call := func(body []byte) []kmsg.DeleteTopicsResponseTopic {
		t.Helper()
		return h.decode(h.submitBody(kmsg.NewPtrDeleteTopicsRequest(), 7, body), kmsg.NewPtrDeleteTopicsRequest(), 7).(*kmsg.DeleteTopicsResponse).Topics
	}
	for _, validateOnly := range []bool{true, true, false} {
		got := call(deleteTopicsV7(validateOnly, "a", "kept", "missing"))
		if len(got) != 3 || got[0].ErrorCode != 0 || got[1].ErrorCode != 44 || text(got[1].ErrorMessage) != "No." || got[2].ErrorCode != 3 {
			t.Errorf("%v: %+v", validateOnly, got)
		}
		if gone := h.images.Load().Topic("a") == nil; gone == validateOnly {
			t.Errorf("validate only %v, gone %v", validateOnly, gone)
		}
	}
	whole := deleteTopicsV7(true, "a", "b")
	for cut := range len(whole) {
		if s := h.submitBody(kmsg.NewPtrDeleteTopicsRequest(), 7, whole[:cut]); <-s.reply != nil && s.err == nil {
			t.Errorf("%d of %d bytes were taken", cut, len(whole))
		}
	}
	if len(call(deleteTopicsV7(true))) != 0 {
		t.Error("no topics")
	}
}

// v7 is served with unstable.api.versions.enable only.
func TestUnstableVersions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	registry, err := codec.NewRegistry(h.admin.APIs()...)
	if err != nil {
		t.Fatal(err)
	}
	if stable, unstable := registry.Select(false).Lookup(20), registry.Select(true).Lookup(20); stable.Serves(7) || !unstable.Serves(7) || !stable.Serves(6) || unstable.Serves(8) {
		t.Error(stable, unstable)
	}
}

func TestArgoCDAnnotations(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		options := harnessOptions{}
		if enabled {
			options.overrides = []string{"admin.argocd.enabled=true", "admin.argocd.application=apps", "admin.argocd.namespace=kafka"}
		}
		h := newHarness(t, options)
		h.mustCreate("Orders", 1)
		if err := h.admin.TopicCreator().EnsureTopic(t.Context(), "auto", 1, nil); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Orders", "auto"} {
			object, err := h.store.Get(t.Context(), meta.KindTopic, meta.TopicResourceName(name))
			if err != nil {
				t.Fatal(err)
			}
			got := object.Meta().Annotations
			want := map[string]string{
				"argocd.argoproj.io/tracking-id":     "apps:kaas.io/KafkaTopic:kafka/" + meta.TopicResourceName(name),
				"argocd.argoproj.io/compare-options": "IgnoreExtraneous",
				"argocd.argoproj.io/sync-options":    "Prune=false",
			}
			for key, value := range want {
				if enabled && got[key] != value || !enabled && got[key] != "" {
					t.Errorf("%v %s: %s", enabled, key, got[key])
				}
			}
		}
	}
}
