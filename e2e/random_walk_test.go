//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A random walk sends the same random requests, good and bad, from several clients to
// kaas and to Apache Kafka and compares each answer. What both do is a function of the
// seed, because nothing is left to chance: each broker has one network thread, one
// request handler and one partition of its coordinator's topic, so that requests are
// handled in the order in which they are sent, on whatever connection, and what is
// answered behind a request tells that it was handled (see fence). Nothing runs out
// either, also on a machine that stands still for a minute.
var walkSettings = []string{
	"num.network.threads=1", "num.io.threads=1", "offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1",
	"group.consumer.assignment.interval.ms=0", "group.consumer.assignor.offload.enable=false",
	"group.coordinator.append.linger.ms=0", "group.consumer.session.timeout.ms=600000", "group.consumer.max.session.timeout.ms=600000",
	"broker.session.timeout.ms=600000",
}

const (
	walkTimeoutMs = 800_000 // of sessions, rebalances and transactions
	walkSteps     = 60
	walkPatience  = 15 * time.Second     // for an answer that must come
	walkGlance    = 3 * time.Millisecond // for one that is there or is not
)

// operation is one kind of thing that a client does in a walk; weight is how often.
type operation struct {
	name   string
	weight int
	do     func(w *randomWalk, a *actor) error
}

// actor is one client with a connection to each broker. What it knows it has from
// the last good answers.
type actor struct {
	symbol   string
	conns    [2]net.Conn
	instance *string
	classic  classicMember
	consumer consumerMember
	producer producerState
	waits    *waiting
	answers  [2]kmsg.Response // to waits, of the side that has answered
}

type randomWalk struct {
	*txnPair
	random    *rand.Rand
	actors    []*actor
	observer  *actor  // asks what the walk itself wants to know
	topics    []*pair // the first is the pair's
	trace     []string
	requests  int
	consumers bool            // the group may be one of the consumer protocol
	assignor  string          // that members vote for
	alike     []string        // what all consumers subscribe to; nil: each to something
	plan      groupPlan       // its last one
	handed    map[string]bool // ids of kaas that were handed out and not used yet
	refused   bool            // the last answer is that of a heartbeat that may have been to convert the group
}

// errEnd ends a walk without a fault: what follows cannot be compared.
type errEnd struct{ why string }

func (e errEnd) Error() string { return e.why }

// walks are counted by how they end.
type walks struct {
	number, requests int
	ends             map[string]int
}

// walkSeeds: that of KAAS_SEED alone, or as many random ones.
func walkSeeds(t *testing.T, many int) []uint64 {
	first := rand.Uint64()
	if text := os.Getenv("KAAS_SEED"); text != "" && text != "random" {
		seed, err := strconv.ParseUint(text, 10, 64)
		must(t, err)
		return []uint64{seed}
	}
	if text := os.Getenv("KAAS_WALKS"); text != "" {
		n, err := strconv.Atoi(text)
		must(t, err)
		many = n
	}
	seeds := make([]uint64, many)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// walkAll makes walks of random operations until they are done or some differ.
func walkAll(t *testing.T, brokers [2]*broker, topics func() []*pair, name string, many int, operations []operation) {
	t.Helper()
	done := walks{ends: map[string]int{}}
	unique := fmt.Sprint("-", time.Now().UnixNano())
	for _, seed := range walkSeeds(t, many) {
		w := newWalk(t, brokers, topics(), seed, name, unique)
		end := w.run(operations)
		w.close()
		done.number++
		done.requests += w.requests
		var known errEnd
		switch {
		case end == nil:
			done.ends["all steps"]++
		case errors.As(end, &known):
			done.ends[known.why]++
		default:
			done.ends["DIFFERENCE"]++
			t.Errorf("%s, KAAS_SEED=%d:\n%s\n%v", name, seed, strings.Join(w.trace, "\n"), end)
		}
		if done.ends["DIFFERENCE"] == 8 {
			break
		}
	}
	t.Logf("%s: %d walks, %d requests, ends %v", name, done.number, done.requests, done.ends)
}

func newWalk(t *testing.T, brokers [2]*broker, topics []*pair, seed uint64, name, unique string) *randomWalk {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	g := &groupPair{pair: topics[0], group: fmt.Sprintf("%s-%d%s", name, seed, unique)}
	w := &randomWalk{txnPair: &txnPair{groupPair: g, unique: fmt.Sprintf("-%s-%d%s", name, seed, unique)}, random: random, topics: topics, handed: map[string]bool{}, assignor: pick(random, "range", "uniform")}
	if random.IntN(4) > 0 {
		w.alike = pick(random, []string{w.topic}, []string{w.topic, topics[len(topics)-1].topic})
	}
	dial := func(symbol string) *actor {
		a := &actor{symbol: symbol}
		for side, b := range brokers {
			conn, err := net.Dial("tcp", b.address)
			must(t, err)
			a.conns[side] = conn
		}
		return a
	}
	w.observer = dial("observer")
	for i := range 4 {
		a := dial(fmt.Sprint("m", i)) // in this order in a Java HashMap, too
		if i < 2 && random.IntN(2) == 0 {
			a.instance = ptr(fmt.Sprint("i", i))
		}
		w.actors = append(w.actors, a)
	}
	return w
}

func (w *randomWalk) close() {
	for _, a := range append(w.actors, w.observer) {
		for _, conn := range a.conns {
			_ = conn.Close()
		}
	}
}

func (w *randomWalk) run(operations []operation) error {
	sum := 0
	for _, o := range operations {
		sum += o.weight
		w.consumers = w.consumers || o.name == "ConsumerGroupHeartbeat"
	}
	if err := w.found(); err != nil {
		return err
	}
	for range walkSteps {
		free := slices.DeleteFunc(slices.Clone(w.actors), func(a *actor) bool { return a.waits != nil })
		if len(free) == 0 {
			return errEnd{"all wait"}
		}
		a, n := pick(w.random, free...), w.random.IntN(sum)
		for _, o := range operations {
			if n -= o.weight; n < 0 {
				if err := o.do(w, a); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// rarely is true once in so many times.
func (w *randomWalk) rarely(times int) bool { return w.random.IntN(times) == 0 }

func (w *randomWalk) other() *actor { return pick(w.random, w.actors...) }

// ask sends a request to both and compares the answers. Only joins and syncs may wait;
// the answers to those that waited and now do not are compared, too.
func (w *randomWalk) ask(a *actor, what string, build func(side int) kmsg.Request) error {
	a.waits = &waiting{what: what, conns: a.conns}
	w.trace = append(w.trace, a.symbol+" "+what)
	w.requests++
	within := walkPatience
	switch build(0).(type) {
	case *kmsg.JoinGroupRequest:
		// Whoever comes first is answered by a timer of 0 ms, which no fence stands behind.
		states, err := w.states()
		if err != nil {
			return err
		}
		if states[1] != "Empty" && states[1] != "Dead" {
			within = walkGlance
		}
	case *kmsg.SyncGroupRequest:
		within = walkGlance
	}
	for side := range sides {
		a.waits.requests[side] = build(side)
		if err := write(a.conns[side], a.waits.requests[side]); err != nil {
			return fmt.Errorf("%s: %s: %w", sides[side], what, err)
		}
	}
	if within == walkGlance || slices.ContainsFunc(w.actors, func(other *actor) bool { return other != a && other.waits != nil }) {
		if err := w.fence(); err != nil {
			return err
		}
	}
	if err := w.poll(a, within); err != nil {
		return err
	}
	for _, other := range w.actors {
		if err := w.poll(other, walkGlance); err != nil {
			return err
		}
	}
	if w.consumers {
		before := w.plan.state
		if err := w.watchPlans(); err != nil {
			return err
		}
		if w.plan.state == "" && (before == "Assigning" || before == "Reconciling") {
			return errEnd{"known: a group becomes a classic one before all have what the plan gives them"}
		}
	}
	return nil
}

func write(conn net.Conn, request kmsg.Request) error {
	_ = conn.SetWriteDeadline(time.Now().Add(walkPatience))
	_, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("differential")).AppendRequest(nil, request, 1))
	return err
}

// await reads an answer that begins within a time. A machine that stood still has not
// waited, so a long time is many short ones.
func await(conn net.Conn, request kmsg.Request, within time.Duration) (kmsg.Response, error) {
	var first [1]byte
	for left := within; ; left -= time.Second {
		_ = conn.SetReadDeadline(time.Now().Add(min(left, time.Second)))
		_, err := io.ReadFull(conn, first[:])
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || left <= time.Second {
			return nil, err
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	return readAnswer(io.MultiReader(bytes.NewReader(first[:]), conn), request)
}

// at asks one side for what only the walk wants to know.
func (w *randomWalk) at(side int, request kmsg.Request) (kmsg.Response, error) {
	if err := write(w.observer.conns[side], request); err != nil {
		return nil, err
	}
	return await(w.observer.conns[side], request, walkPatience)
}

// fence returns when both brokers have handled all that was sent before, and have
// answered of it what they answer at once: what the partition is asked later is answered
// behind them. It asks twice, because a thread that finds several requests, or answers,
// at once may take them in another order.
func (w *randomWalk) fence() error {
	for range 2 {
		if _, err := w.states(); err != nil {
			return err
		}
	}
	return nil
}

// states are those of the group on both.
func (w *randomWalk) states() (states [2]string, err error) {
	for side := range sides {
		q := kmsg.NewPtrDescribeGroupsRequest()
		q.Version, q.Groups = 5, []string{w.group}
		r, err := w.at(side, q)
		if err != nil {
			return states, fmt.Errorf("%s does not answer: %w", sides[side], err)
		}
		states[side] = r.(*kmsg.DescribeGroupsResponse).Groups[0].State
	}
	return states, nil
}

// sameState ends the walk when the group is in another state on the other side.
func (w *randomWalk) sameState(why string) error {
	states, err := w.states()
	if err == nil && states[0] != states[1] {
		return errEnd{why}
	}
	return err
}

// found makes the group with an offset in it. This is the first deliberate difference:
// Kafka keeps a group that nobody entered until its retention, kaas forgets it.
func (w *randomWalk) found() error {
	for side := range sides {
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Version, q.Group, q.Generation = 2, w.group, -1
		q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: w.topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 3, Offset: 1, LeaderEpoch: -1}}}}
		if _, err := w.at(side, q); err != nil {
			return fmt.Errorf("%s does not answer: %w", sides[side], err)
		}
	}
	return nil
}

// poll looks for the answers to what an actor waits for. What one side has answered the
// other must answer, too.
func (w *randomWalk) poll(a *actor, within time.Duration) error {
	if a.waits == nil {
		return nil
	}
	for side := range sides {
		response, err := await(a.conns[side], a.waits.requests[side], within)
		switch {
		case err == nil:
			a.answers[side], within = response, walkPatience
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("%s: %s: %w", sides[side], a.waits.what, err)
		}
	}
	if a.answers[0] == nil && a.answers[1] != nil { // it was the first that was looked at
		a.answers[0], _ = await(a.conns[0], a.waits.requests[0], walkPatience)
	}
	switch {
	case a.answers[0] == nil && a.answers[1] == nil && within == walkPatience:
		return fmt.Errorf("%s: nobody answers", a.waits.what)
	case a.answers[0] == nil && a.answers[1] == nil:
		return nil
	case a.answers[0] == nil && w.refused && classicCode(a.answers[1]) == 27:
		return errEnd{"known: a conversion that Kafka refuses ends the requests that wait"}
	case a.answers[0] == nil:
		return fmt.Errorf("%s: only Kafka answers: %s", a.waits.what, w.text(1, a.answers[1]))
	case a.answers[1] == nil:
		if w.askedTwice(a) {
			return errEnd{"known: of two requests of a member that wait, kaas answers the first"}
		}
		return fmt.Errorf("%s: only kaas answers: %s", a.waits.what, w.text(0, a.answers[0]))
	}
	waited, answers := a.waits, a.answers
	a.waits, a.answers = nil, [2]kmsg.Response{}
	return w.compare(a, waited, answers)
}

// compare fails unless both answers are the same.
func (w *randomWalk) compare(a *actor, waited *waiting, answers [2]kmsg.Response) error {
	w.learn(a, answers)
	beat, ok := answers[1].(*kmsg.ConsumerGroupHeartbeatResponse)
	w.refused = ok && beat.ErrorCode != 0
	w.learnTransaction(a, waited.requests[0], answers[0])
	text := [2]string{w.text(0, answers[0]), w.text(1, answers[1])}
	w.trace = append(w.trace, fmt.Sprintf("   %s <- %.700s", a.symbol, text[1]))
	if text[0] == text[1] {
		return nil
	}
	if why := w.incomparable(waited.requests[0], answers); why != "" {
		return errEnd{why}
	}
	if w.consumers {
		if err := w.watchPlans(); err != nil {
			w.trace = append(w.trace, "   where kaas says "+text[0])
			return err
		}
	}
	from := 0
	for from < min(len(text[0]), len(text[1])) && text[0][from] == text[1][from] {
		from++
	}
	from = max(0, from-100)
	w.traceGroup()
	return fmt.Errorf("DIFFERENCE %s\n kaas …%.400s\nKafka …%.400s", waited.what, text[0][from:], text[1][from:])
}

// traceGroup notes what both sides say of the group.
func (w *randomWalk) traceGroup() {
	classic, consumer := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrConsumerGroupDescribeRequest()
	classic.Version, classic.Groups, consumer.Version, consumer.Groups = 5, []string{w.group}, 1, []string{w.group}
	for _, q := range []kmsg.Request{classic, consumer} {
		for side := range sides {
			if r, err := w.at(side, q); err == nil {
				w.trace = append(w.trace, fmt.Sprintf("   %s: %s", sides[side], w.text(side, r)))
			}
		}
	}
}

// text is an answer as it is compared.
func (w *randomWalk) text(side int, response kmsg.Response) string {
	again := response.AppendTo(nil)
	kind := response.RequestKind()
	kind.SetVersion(response.GetVersion())
	response = kind.ResponseKind()
	if err := response.ReadFrom(again); err != nil {
		panic(err) // it was read before
	}
	text, err := json.Marshal(w.evenWalk(side, response))
	if err != nil {
		panic(err)
	}
	return unnamedID.ReplaceAllString(w.named(side, string(text)), `"MemberID":"someone"`)
}

// unnamedID is a member id that Kafka makes for a classic member of a consumer group, or
// for a consumer that brings none, and that no answer has named yet.
var unnamedID = regexp.MustCompile(`"MemberID":"[A-Za-z0-9_-]{22}"`)
