package footprint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"golang.org/x/sys/unix"
)

// DropImage unmaps the pages of the program's own file: code and constants. Each
// comes back from the page cache when it is touched again, 64 KiB with one minor
// fault (the kernel's fault_around_bytes).
//
// Go runs the initialisers of all packages that are linked, and the linker spreads
// them over the whole image, so after a start nearly all of it is mapped, though a
// broker at work touches a tenth. What is dropped here stays in the page cache while
// there is room; it is no longer charged to this process, and the kernel may take it
// without unmapping it first.
//
// Under a debugger nothing is dropped: its breakpoints are private copies of code
// pages and would go with them.
func DropImage() error {
	if counted {
		return nil
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("drop the image: %w", err)
	}
	if traced(string(status)) {
		return nil
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("drop the image: %w", err)
	}
	mappings, err := imageMappings(string(maps), reflect.ValueOf(DropImage).Pointer())
	if err != nil {
		return fmt.Errorf("drop the image: %w", err)
	}
	for _, m := range mappings {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("drop the image: madvise %x-%x: %w", m.from, m.to, errno)
		}
	}
	return nil
}

// traced: TracerPid of /proc/PID/status is not 0.
func traced(status string) bool {
	for line := range strings.Lines(status) {
		if pid, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			return strings.TrimSpace(pid) != "0"
		}
	}
	return false
}

type mapping struct{ from, to uintptr }

// imageMappings are the mappings that cannot be written of the file that code lies
// in (proc_pid_maps(5)): a page that can be written may differ from the file.
func imageMappings(maps string, code uintptr) ([]mapping, error) {
	type view struct {
		mapping
		file string
	}
	var views []view
	image := ""
	for line := range strings.Lines(maps) {
		var m mapping
		var permissions, offset, device, inode string
		if _, err := fmt.Sscanf(line, "%x-%x %s %s %s %s", &m.from, &m.to, &permissions, &offset, &device, &inode); err != nil {
			return nil, fmt.Errorf("/proc/self/maps: %q: %w", line, err)
		}
		file := device + " " + inode
		if m.from <= code && code < m.to {
			if inode == "0" {
				return nil, errors.New("the program's code is not a mapped file")
			}
			image = file
		}
		if len(permissions) == 4 && permissions[1] == '-' && permissions[3] == 'p' {
			views = append(views, view{m, file})
		}
	}
	if image == "" {
		return nil, fmt.Errorf("the program's code at %x is not in /proc/self/maps: %w", code, fs.ErrNotExist)
	}
	var mappings []mapping
	for _, v := range views {
		if v.file == image {
			mappings = append(mappings, v.mapping)
		}
	}
	return mappings, nil
}
