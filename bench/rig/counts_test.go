package rig

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadCachegrind(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	text := "cmd: x\nevents: Ir\nfl=a.go\nfn=kaas/broker.(*Broker).OnFrame\n10 5\n11 7\nfn=runtime.mcall\n1 3\nfl=b.go\nfn=kaas/broker.(*Broker).OnFrame\n9 1\nsummary: 16\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	counts, err := ReadCachegrind(path)
	if err != nil || counts["kaas/broker.(*Broker).OnFrame"] != 13 || counts["runtime.mcall"] != 3 || len(counts) != 2 {
		t.Errorf("%v %v", counts, err)
	}
}
