package footprint

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenFiles returns how many files the process may have open, 0: nobody says. The Go
// runtime has raised the soft limit to the hard one.
func OpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}

// MemoryLimit returns the bytes that the process's control group may take, the
// smallest of its group and those above; 0 when there is no limit, or none that can
// be found. root is the root of the file system: os.DirFS("/").
func MemoryLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0 // no control groups
	}
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path, cgroups(7)
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			limit = min(limit, smallest(root, "sys/fs/cgroup", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			limit = min(limit, smallest(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	if limit >= unlimited {
		return 0
	}
	return limit
}

// unlimited: version 1 has no word for no limit, its number is the largest multiple
// of a page.
const unlimited = 1 << 60

// smallest reads the limit of a group and of those above. In a container the path
// may be the host's, which is not mounted there; then its own group is the mount.
func smallest(root fs.FS, mount, group, file string) int64 {
	limit := int64(math.MaxInt64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		text, err := fs.ReadFile(root, path.Join(mount, dir, file))
		if n, parseErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && parseErr == nil {
			limit = min(limit, n) // "max" is no number, and no limit
		}
		if dir == "/" {
			return limit
		}
	}
}
