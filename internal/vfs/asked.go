package vfs

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A file system that took a write AskUs ago is not asked again; after an ask that took SlowAskUs, or AskGapUs without one that
// passed, it is asked by each write for WaryMs.
const (
	AskUs     = 250
	SlowAskUs = 500
	AskGapUs  = 5_000
	WaryMs    = 100
)

// Volumes know the file systems whose files have windows.
type Volumes struct {
	Clock func() time.Duration // does not jump; nil: the system's
	Asks  *atomic.Int64        // counts asks that passed; nil: nobody wants to know
	mu    sync.Mutex
	all   map[uint64]*volume // by device number. Owner: mu
}

// volume is what the windows of one file system know together: whether it takes writes.
//
// A page that was written back since it was written to last has to be made writable by the file system, which waits while that is
// frozen. A thread that waits so in a system call gives its scheduling slot away; one that faults keeps it, and the next collection
// of garbage would wait for it, and everything with that. Nor may the kernel be made to fault instead: it would wait with the lock of
// the address space. So a write asks first, by a write of no bytes (Window.ask), unless the file system has passed such an ask of
// anybody in the last AskUs.
//
// # Why that is enough
//
// All that freezes a file system (FIFREEZE, the device mapper, a suspend) goes through freeze_super of Linux. It takes three locks of the
// superblock for writing, one after the other: that of writers, at T1; that of page faults, at T2; that of the file system itself. Only
// then, after T2, are the dirty pages written back, so that a page that was writable stays so until then, and one that was not is made so until then. An ask holds the first
// for reading, so one that passed began before T1. Each of the locks is a percpu_rw_semaphore, whose percpu_down_write lets an RCU
// grace period pass (rcu_sync_enter) before it keeps readers out: T2 is later than T1 by a grace period, which takes ticks of the scheduler:
// 4 to 24 ms with 250 Hz, measured, and not less than about 3 ms anywhere. A write to a window comes less than AskUs after the
// beginning of an ask that passed, so before T1 + AskUs, and has a tenth of the way to T2 behind it.
//
// An ask tells the others only after it has returned (passed), and the time when it began. One that waits for a thaw tells nothing until
// then, and then something that is old: who comes meanwhile finds nothing fresh, asks for itself and waits in a system call, too.
//
// The grace period is left out in three cases:
//
//   - A freeze that begins within a grace period of the last thaw: rcu_sync has its readers on the slow path still. So a volume that
//     may have been frozen a moment ago is asked each time, for WaryMs: 30 ms after a thaw the grace periods are there again, measured. That is seen from an ask
//     that took SlowAskUs, or from AskGapUs without an ask that passed: a freeze with its two grace periods between the locks takes
//     longer. Who writes that seldom asks each time.
//   - rcu_expedited: grace periods without ticks. Then every write asks, and on a machine of one CPU, where older kernels
//     take anything for a grace period (sharesAsks).
//   - A thread that loses the CPU between the question and the copy, for the rest of the way to T2. It needs a tick that comes in
//     these nanoseconds in the milliseconds of a freeze, and was the same when each write asked for itself.
//
// What the write of no bytes never saw, a page that the system writes back on a disk that hangs, is not about freezing: see the package
// segment, which writes a batch by a system call now and then.
type volume struct {
	clock     func() time.Duration
	asks      *atomic.Int64 // Volumes.Asks
	alone     bool          // nobody may rely on the ask of another. Immutable
	passedNs  atomic.Int64  // when the newest ask that passed had begun
	trustedNs atomic.Int64  // until then each write asks
}

// fresh says that a write may go without asking. The order of the loads: whoever finds a freeze behind it says so in trustedNs before
// it says in passedNs that the file system answers again.
func (v *volume) fresh(now time.Duration) bool {
	return int64(now)-v.passedNs.Load() <= AskUs*1000 && int64(now) >= v.trustedNs.Load() && !v.alone
}

// passed tells the others of an ask that has passed.
func (v *volume) passed(began time.Duration) {
	if v.asks != nil {
		v.asks.Add(1)
	}
	end, before := v.clock(), v.passedNs.Load()
	if end-began >= SlowAskUs*time.Microsecond || int64(began)-before >= AskGapUs*1000 {
		v.trustedNs.Store(int64(end) + WaryMs*1_000_000)
	}
	if int64(began) > before { // an older one that comes later than this changes nothing but that somebody asks once more
		v.passedNs.Store(int64(began))
	}
}

// of is the volume of a file; nil: not known.
func (v *Volumes) of(fd int) *volume {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.all[st.Dev]
	if x == nil {
		if v.all == nil {
			v.all = map[uint64]*volume{}
		}
		x = &volume{clock: v.Clock, asks: v.Asks, alone: !sharesAsks()}
		if v.Clock == nil {
			started := time.Now()
			x.clock = func() time.Duration { return time.Since(started) }
		}
		x.passedNs.Store(-AskGapUs * 1000)
		v.all[st.Dev] = x
	}
	return x
}

// sharesAsks says whether a grace period takes its time here.
func sharesAsks() bool {
	expedited, err := os.ReadFile("/sys/kernel/rcu_expedited")
	if err != nil || strings.TrimSpace(string(expedited)) != "0" {
		return false
	}
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	return err == nil && strings.ContainsAny(string(online), ",-")
}

// Share lets the window rely on what other windows of its file system find.
func (w *Window) Share(v *Volumes) { w.volume = v.of(w.fd) }
