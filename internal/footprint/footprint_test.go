package footprint

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"no control groups": {fstest.MapFS{}, 0},
		"v2, no limit":      {fstest.MapFS{"proc/self/cgroup": file("0::/a"), "sys/fs/cgroup/a/memory.max": file("max")}, 0},
		"v2":                {fstest.MapFS{"proc/self/cgroup": file("0::/a/b"), "sys/fs/cgroup/a/b/memory.max": file("536870912")}, 512 << 20},
		"v2, the group above is smaller": {fstest.MapFS{"proc/self/cgroup": file("0::/a/b"),
			"sys/fs/cgroup/a/b/memory.max": file("536870912"), "sys/fs/cgroup/a/memory.max": file("268435456")}, 256 << 20},
		"v2 in a container": {fstest.MapFS{"proc/self/cgroup": file("0::/"), "sys/fs/cgroup/memory.max": file("1000")}, 1000},
		"v2, the host's path in a container": {fstest.MapFS{"proc/self/cgroup": file("0::/kubepods/pod1/c1"),
			"sys/fs/cgroup/memory.max": file("1000")}, 1000},
		"v1": {fstest.MapFS{"proc/self/cgroup": file("9:cpu,cpuacct:/x\n5:memory:/docker/1\n0::/x"),
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": file("2000")}, 2000},
		"v1, no limit": {fstest.MapFS{"proc/self/cgroup": file("5:memory:/"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712")}, 0},
	} {
		if got := MemoryLimit(c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestImageMappings(t *testing.T) {
	t.Parallel()
	const maps = `00400000-00fd5000 r-xp 00000000 fe:00 77 /bin/a file with spaces
00fd5000-01dc9000 r--p 00bd5000 fe:00 77 /bin/a file with spaces
01dc9000-01e53000 rw-p 019c9000 fe:00 77 /bin/a file with spaces
01e53000-03ea0000 rw-p 00000000 00:00 0
7f19a1720000-7f19a1900000 r--s 00000000 fe:00 78 /data/0.log
7f19a1900000-7f19a1a00000 r--s 00000000 fe:00 77 /bin/a file with spaces
7ffcfa1f1000-7ffcfa212000 r-xp 00000000 00:00 0 [vdso]
`
	got, err := imageMappings(maps, 0x401000)
	if want := []mapping{{0x400000, 0xfd5000}, {0xfd5000, 0x1dc9000}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%x, %v; want %x", got, err, want)
	}
	for _, code := range []uintptr{0x10, 0x1e53010} {
		if got, err := imageMappings(maps, code); err == nil {
			t.Errorf("code at %x: %x", code, got)
		}
	}
	if _, err := imageMappings("nonsense\n", 0x401000); err == nil {
		t.Error("nonsense was read")
	}
}

func TestTraced(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{"Name:\ta\nTracerPid:\t0\n": false, "TracerPid:\t17\nUid:\t0\n": true, "Name:\ta\n": false} {
		if traced(status) != want {
			t.Errorf("%q: %v", status, !want)
		}
	}
}

// fileResident is RssFile of /proc/self/status in KiB.
func fileResident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssFile:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Skip("this kernel does not say RssFile")
	return 0
}

// touchImage reads every page of the program's file, as a large start would.
func touchImage(t *testing.T) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mappings, err := imageMappings(string(maps), reflect.ValueOf(DropImage).Pointer())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer memory.Close()
	for _, m := range mappings {
		if _, err := memory.ReadAt(make([]byte, m.to-m.from), int64(m.from)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDropImage is not parallel: what other tests touch would come back.
func TestDropImage(t *testing.T) {
	if status, err := os.ReadFile("/proc/self/status"); err == nil && traced(string(status)) {
		t.Skip("under a debugger nothing is dropped")
	}
	touchImage(t)
	before := fileResident(t)
	if err := DropImage(); err != nil {
		t.Fatal(err)
	}
	// What has been touched since has come back, this function among it.
	if after := fileResident(t); after > before*9/10 {
		t.Errorf("%d KiB of files are mapped, before it were %d", after, before)
	}
}
