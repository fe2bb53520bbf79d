package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/index"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
	"kaas/logstore/recovery"
)

// Dir is one log directory. Its owner has the lock until Unlock.
type Dir struct {
	Path string
	ID   string // directory.id of meta.properties

	fs     vfs.FS
	logger *slog.Logger
	lock   vfs.Lock // nil: let go of
	names  sharedSync
}

// OpenAll locks every directory, agrees on the cluster id ("": that of the directories, or a new one) and writes
// meta.properties where it is missing, but not where a directory is missing that is known. On an error the directories that
// are locked already are returned, for Unlock.
func OpenAll(fsys vfs.FS, logger *slog.Logger, paths []string, brokerID int32, wanted string) (dirs []*Dir, known *Known, clusterID string, err error) {
	known, paths, err = openKnown(fsys, logger, paths)
	if err != nil {
		return nil, nil, "", err
	}
	dirs, clusterID, err = openAll(known, paths, brokerID, wanted)
	if err == nil {
		err = known.settle(dirs)
	}
	return dirs, known, clusterID, err
}

func openAll(k *Known, paths []string, brokerID int32, wanted string) (dirs []*Dir, clusterID string, err error) {
	var metas []checkpoint.MetaProperties
	clusterID = wanted
	for _, path := range paths {
		d := &Dir{Path: path, fs: k.fs, logger: k.logger}
		var locked *vfs.LockedError
		if err := d.take(); errors.As(err, &locked) {
			return dirs, "", err
		} else if err != nil {
			if err := k.fail(path, err); err != nil {
				return dirs, "", err
			}
			continue
		}
		dirs = append(dirs, d)
		m, found, err := checkpoint.ReadMeta(k.fs, path)
		if err != nil {
			return dirs, "", err
		}
		if found && m.NodeID != brokerID {
			return dirs, "", fmt.Errorf("%s belongs to node.id %d, this broker is %d", path, m.NodeID, brokerID)
		}
		if found && clusterID != "" && m.ClusterID != "" && m.ClusterID != clusterID {
			return dirs, "", fmt.Errorf("%s belongs to cluster.id %s, not to %s", path, m.ClusterID, clusterID)
		}
		if m.ClusterID != "" {
			clusterID = m.ClusterID
		}
		metas = append(metas, m)
	}
	if clusterID == "" {
		clusterID = checkpoint.NewUUIDString()
	}
	all := dirs
	dirs = nil
	for i, d := range all {
		m := checkpoint.MetaProperties{ClusterID: clusterID, NodeID: brokerID, DirectoryID: metas[i].DirectoryID}
		if m.DirectoryID == "" {
			m.DirectoryID = checkpoint.NewUUIDString()
		}
		d.ID = m.DirectoryID
		if m != metas[i] {
			if err := checkpoint.WriteMeta(k.fs, d.Path, m); err != nil {
				if err := errors.Join(k.fail(d.Path, fmt.Errorf("can't be used: %w", err)), d.Unlock()); err != nil {
					return all, "", err
				}
				continue
			}
		}
		dirs = append(dirs, d)
	}
	return dirs, clusterID, nil
}

func (d *Dir) take() error {
	if err := vfs.MakeDir(d.fs, d.Path); err != nil {
		return fmt.Errorf("can't be made: %w", err)
	}
	lock, err := d.fs.Lock(filepath.Join(d.Path, layout.LockName))
	var locked *vfs.LockedError
	switch {
	case errors.As(err, &locked):
		return fmt.Errorf("log directory %s is in use: %w", d.Path, err)
	case err != nil:
		return fmt.Errorf("can't be used: %w", err)
	}
	d.lock = lock
	return nil
}

// Unlock lets another process have the directory. It is idempotent.
func (d *Dir) Unlock() error {
	lock := d.lock
	if d.lock = nil; lock == nil {
		return nil
	}
	return lock.Unlock()
}

// Sync makes the names in the directory durable. Calls at the same time share one.
func (d *Dir) Sync() error {
	return d.names.sync(func() error { return d.fs.SyncDir(d.Path) })
}

// EndNumbers are those of a line of kaas-log-end-checkpoint: end, active base, active size, 1 when producers are known, then length
// and CRC-32C of the active segment's offset and of its time index, -1 when not known, and the newest leader epoch.
const EndNumbers = 9

// State is what the files of a directory say about the last stop.
type State struct {
	Clean          bool
	RecoveryPoints map[checkpoint.Key][]int64
	LogStarts      map[checkpoint.Key][]int64
	CleanedTo      map[checkpoint.Key][]int64
	Ends           map[checkpoint.Key][]int64 // EndNumbers each, or 4 from an earlier version; only if clean
	Journal        *journal.Contents          // of the commit journal; nil: there is none
}

// ReadState reads the checkpoints and takes the clean mark away, durably: from here on a crash is a crash. Unreadable
// checkpoints are as if missing: more is scanned.
func (d *Dir) ReadState() (st State, err error) {
	read := func(name string, numbers ...int) map[checkpoint.Key][]int64 {
		m, err := checkpoint.ReadOffsets(d.fs, filepath.Join(d.Path, name), numbers...)
		if err != nil {
			d.logger.Warn("checkpoint ignored", "file", filepath.Join(d.Path, name), "reason", err)
		}
		return m
	}
	mark := filepath.Join(d.Path, layout.CleanShutdownName)
	if _, err := d.fs.Stat(mark); err == nil {
		st.Clean = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return st, err
	}
	st.RecoveryPoints = read(layout.RecoveryPointName, 1)
	st.LogStarts = read(layout.LogStartName, 1)
	st.CleanedTo = read(layout.CleanedToName, 1)
	if st.Clean {
		st.Ends = read(layout.EndStateName, 4, EndNumbers)
		if err := d.fs.Remove(mark); err != nil {
			return st, err
		}
		if err := d.fs.SyncDir(d.Path); err != nil {
			return st, err
		}
	}
	st.Journal, err = journal.Load(d.fs, d.Path, 1<<64-1)
	if err != nil {
		return st, fmt.Errorf("the commit journal, which may hold acknowledged records, can't be read: %w", err)
	}
	return st, nil
}

// Tell puts into a recovery what is known of its partition.
func (st *State) Tell(key checkpoint.Key, t *recovery.Task) {
	set := func(into *int64, v []int64) {
		if v != nil {
			*into = v[0]
		}
	}
	set(&t.Point, st.RecoveryPoints[key])
	set(&t.LogStart, st.LogStarts[key])
	set(&t.CleanedTo, st.CleanedTo[key])
	e := st.Ends[key]
	if e == nil {
		return
	}
	t.Stop = &recovery.StopMark{EndOffset: e[0], ActiveBase: e[1], ActiveSize: e[2], ProducersKnown: e[3] != 0}
	if len(e) < EndNumbers {
		return
	}
	t.Stop.Epoch = &e[8]
	if e[4] >= 0 {
		t.Stop.Sums = &index.Sums{Offsets: index.Sum{Bytes: e[4], CRC: uint32(e[5])}, Times: index.Sum{Bytes: e[6], CRC: uint32(e[7])}}
	}
}

// Partition is a partition's directory.
type Partition struct {
	Key  checkpoint.Key
	Path string
}

// List finds the partitions' directories, those that were set aside, and what an interrupted deletion left. What is foreign
// is named and left alone.
func (d *Dir) List(strays *Strays) (partitions []Partition, deleted []string, err error) {
	entries, err := d.fs.List(d.Path)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		path := filepath.Join(d.Path, e.Name)
		topic, partition, ok := layout.ParsePartitionDir(e.Name)
		switch {
		case ok && e.Dir:
			partitions = append(partitions, Partition{checkpoint.Key{Topic: topic, Partition: partition}, path})
		case e.Dir && isStray(e.Name):
			strays.Add(d, e.Name)
		case layout.OwnNames[e.Name] || e.Dir && strings.HasSuffix(e.Name, layout.FutureDirSuffix):
		case e.Dir && strings.HasSuffix(e.Name, layout.DeleteDirSuffix) && strings.Contains(e.Name, "."):
			deleted = append(deleted, path)
		case !e.Dir && strings.HasSuffix(e.Name, layout.TemporarySuffix) && layout.OwnNames[strings.TrimSuffix(e.Name, layout.TemporarySuffix)]:
			d.logger.Debug("left over by a crash", "file", path)
		default:
			d.logger.Warn("not a partition, left alone", "path", path)
		}
	}
	return partitions, deleted, nil
}

// Move is one that a stop interrupted before its end: it goes on when it is begun again.
type Move struct {
	Key checkpoint.Key
	To  *Dir
}

// SettleMoves brings to an end what moves a stop interrupted: of two directories of one partition the one with the mark is
// the newer one. A copy that is not complete is unfinished; what it has is removed. complete: no directory is missing, so a
// mark without an older directory means nothing any more.
func SettleMoves(dirs []*Dir, complete bool) (unfinished []Move, remove []string, err error) {
	at := map[string][]*Dir{}
	for _, d := range dirs {
		entries, err := d.fs.List(d.Path)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			if _, _, ok := layout.ParsePartitionDir(e.Name); ok && e.Dir {
				at[e.Name] = append(at[e.Name], d)
			} else if e.Dir && strings.HasSuffix(e.Name, layout.FutureDirSuffix) && strings.Contains(e.Name, ".") {
				remove = append(remove, filepath.Join(d.Path, e.Name))
				if topic, partition, ok := layout.ParseFutureDir(e.Name); ok {
					unfinished = append(unfinished, Move{checkpoint.Key{Topic: topic, Partition: partition}, d})
				}
			}
		}
	}
	for name, in := range at {
		if len(in) == 1 && !complete {
			continue // the older one may be in a directory that comes back
		}
		if err := settleMove(name, in); err != nil {
			return nil, nil, err
		}
	}
	return unfinished, remove, nil
}

func settleMove(name string, dirs []*Dir) error {
	for _, d := range dirs {
		mark := filepath.Join(d.Path, name, layout.MovedName)
		if _, err := d.fs.Stat(mark); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		topic, partition, _ := layout.ParsePartitionDir(name)
		for _, older := range dirs {
			if older == d {
				continue
			}
			aside := filepath.Join(older.Path, layout.AsideDir(topic, partition, checkpoint.RandomUUID(), layout.DeleteDirSuffix))
			if err := d.fs.Rename(filepath.Join(older.Path, name), aside); err != nil {
				return err
			}
			if err := d.fs.SyncDir(older.Path); err != nil {
				return err
			}
			d.logger.Info("move of a partition finished that a stop interrupted", "dir", filepath.Join(d.Path, name), "removed", aside)
		}
		return d.fs.Remove(mark)
	}
	return nil
}
