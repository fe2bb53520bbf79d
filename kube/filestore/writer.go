package filestore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"kaas/internal/vfs"
)

// openForWriting says whether somebody has the file open for writing: what is in it
// then is not what will be. The kernel grants a read lease only while nobody has
// (fcntl(2), F_SETLEASE); a file system without leases, and a file of another owner,
// tell nothing, which is false.
//
// Who opens the file for writing while the lease is held, some microseconds, waits
// until it is given back.
func openForWriting(fsys vfs.FS, path string) bool {
	if fsys != vfs.OS {
		return false
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // nothing was written
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return errors.Is(err, unix.EAGAIN)
}

// fileIdentity tells a file that was written anew in its place from one that
// replaced it: inode and time of birth, since inodes are used again at once. "" when
// that can't be known.
func fileIdentity(fsys vfs.FS, path string) string {
	var stat unix.Statx_t
	if fsys != vfs.OS || unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &stat) != nil || stat.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return fmt.Sprint(stat.Ino, " ", stat.Btime.Sec, " ", stat.Btime.Nsec)
}
