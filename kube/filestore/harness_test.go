package filestore

import (
	"testing"
	"time"

	"kaas/kube/kubetest"
)

var (
	testLogger, logTo       = kubetest.Logger, kubetest.LogTo
	write, read, manifestOf = kubetest.Write, kubetest.Read, kubetest.TopicManifest
	mustTopic               = kubetest.Topic
	eventually, awaitReason = kubetest.Eventually, kubetest.AwaitReason
	startReconciler         = kubetest.StartReconciler
)

// openStore opens a store that looks at its files only when look is called.
func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour, Debounce: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// look scans as the notifier would, at a moment after the given time has passed.
func look(s *Store, later time.Duration) { s.Rescan(time.Now().Add(later)) }
