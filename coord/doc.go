// Package coord is the runtime behind the group and the transaction
// coordinator: it owns the state machines of one internal topic, one machine
// per partition (a shard), and moves events in, records to the log and replies
// out. docs/design/coord.md argues why it is sound.
//
// What it is not: it knows no group, no transaction and no request. The
// machines (package group) do no I/O and know no clock: time comes in with the
// [Turn], records leave by [Turn.Emit], replies by [Turn.Reply], and timers are
// events of the same turn.
//
// # Rules
//
//   - The durable part of a machine is changed by Replay only, live and at load.
//   - Emit replays at once (so the next event sees it) and the record is appended
//     at the end of the turn, together with those of all other events.
//   - A reply given to Turn.Reply leaves after everything that the machine knew
//     when it was given is committed, so no client ever sees a state that a crash
//     could take back.
//   - When the log fails, the machine is thrown away whole, parked replies get the
//     error, and a new machine replays the log. Nothing is undone in place.
//
// # Goroutines
//
// A [Runtime] starts one goroutine per loaded shard; it alone touches machine,
// timers and parked replies (the core type). Turn.Offload starts one for each piece of
// work, which waits for a token and reaches the mailbox alone. Submit and the commit callbacks of the log run on
// any goroutine and only reach the shard's mailbox. Reply functions run on the
// shard's goroutine, or on the submitter's when the event was refused.
//
// # Lock order
//
// Runtime.mu → mailbox.mu. Both are leaves for the rest of the program: no
// callback runs and nothing is appended while one is held.
package coord
