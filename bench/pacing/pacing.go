package pacing

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Thread gives the calling goroutine a thread of its own whose sleeps end in time. It must not be unlocked: the thread
// ends with its goroutine, and nobody else gets its timer slack.
func Thread() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("exact sleeps: %w", err)
	}
	return nil
}

// Until sleeps until t, on a goroutine of Thread. A t that has passed is no sleep.
func Until(t time.Time) {
	for left := time.Until(t); left > 0; left = time.Until(t) {
		request := unix.NsecToTimespec(left.Nanoseconds())
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &request, nil) // a signal may end it early: the loop goes on
	}
}
