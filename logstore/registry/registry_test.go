package registry

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

func TestMap(t *testing.T) {
	t.Parallel()
	m := New[string]()
	if p := m.Get("t", 0); p != "" || m.All() != nil && len(m.All()) != 0 {
		t.Fatalf("an empty map has %q", p)
	}
	for _, id := range []int32{3, 0, 7, 1} {
		if old, had := m.Put("t", id, fmt.Sprint("t", id)); had {
			t.Fatalf("%d was there: %q", id, old)
		}
	}
	m.Put("a", 0, "a0")
	if old, had := m.Put("t", 7, "seven"); !had || old != "t7" {
		t.Fatalf("%q %v", old, had)
	}
	if got := m.All(); !slices.Equal(got, []string{"a0", "t0", "t1", "t3", "seven"}) {
		t.Fatal(got)
	}
	for id, want := range map[int32]string{0: "t0", 1: "t1", 2: "", 3: "t3", 7: "seven", 8: "", -1: ""} {
		if got := m.Get("t", id); got != want {
			t.Errorf("%d: %q, want %q", id, got, want)
		}
	}
	if old, had := m.Remove("t", 2); had {
		t.Fatal(old)
	}
	for _, id := range []int32{0, 1, 3, 7} {
		if first, ok := m.First("t"); !ok || first == "" {
			t.Fatalf("%q %v", first, ok)
		}
		if _, had := m.Remove("t", id); !had {
			t.Fatalf("%d was not there", id)
		}
	}
	if first, ok := m.First("t"); ok {
		t.Fatal(first)
	}
}

// Readers see each partition that is there all the time, while others come and go.
func TestReadersBesideWriter(t *testing.T) {
	t.Parallel()
	m := New[int32]()
	for id := range int32(10) {
		m.Put("t", id, id+1)
	}
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for id := range int32(10) {
					if got := m.Get("t", id); got != id+1 {
						t.Errorf("%d: %d", id, got)
						return
					}
				}
				if all := m.All(); len(all) < 10 || !slices.IsSorted(all) {
					t.Errorf("%v", all)
					return
				}
			}
		})
	}
	for i := range int32(500) {
		m.Put("t", 10+i%7, 11+i%7)
		m.Remove("t", 10+(i+3)%7)
	}
	close(stop)
	readers.Wait()
}
