package logstore

import (
	"fmt"
	"math"
	"path/filepath"

	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
	"kaas/logstore/volume"
)

// setStray sets p aside with all that it needs to come back by itself: its files are synced and what the commit journal holds
// of it means nothing any more, so that a later start does not write it over what was done to the files since; and its log
// start goes with it. An error before the rename leaves p as it is. Caller: exclusive.
func (s *Store) setStray(p *Partition) (aside string, err error) {
	s.mover.leave(p)
	p.freeze(true)
	p.syncFiles()
	if err = p.Err(); err == nil {
		err = p.logDir().journal.forget(p, math.MaxInt64)
	}
	if err == nil {
		err = p.noteLogStart(p.logStart.Load())
	}
	if err != nil {
		p.freeze(false)
		return "", p.wrap(fmt.Errorf("%w: it can't be set aside: %w", ErrStorage, err))
	}
	if aside, err = s.setAside(p, layout.StrayDirSuffix); err == nil {
		s.strays.Add(p.logDir().Dir, filepath.Base(aside))
	}
	return aside, err
}

// freeze refuses appends, or takes them again.
func (p *Partition) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
}

// noteLogStart keeps a log start in the partition's own directory where its segments don't say it: it goes where the partition
// goes, and the file of the log directory may be lost.
func (p *Partition) noteLogStart(start int64) error {
	p.headMu.Lock()
	defer p.headMu.Unlock()
	if all := p.segments.Load().all; start <= p.startNoted || len(all) > 0 && all[0].BaseOffset >= start {
		return nil
	}
	err := p.writeLogStart(p.path(), start)
	if err == nil {
		p.startNoted = start
	}
	return err
}

func (p *Partition) writeLogStart(dir string, start int64) error {
	var o checkpoint.Offsets
	o.Add(p.topic, p.id, start)
	return o.Write(p.store.fs, dir, layout.LogStartName)
}

// unstray brings back the directory of this topic id that was set aside; nil: there is none. The rename is the one step that
// counts: before it the directory is as it was, after it a start finds the partition at its place. Caller: exclusive.
func (s *Store) unstray(key checkpoint.Key, topicID [16]byte, c Config) (*Partition, error) {
	failed := func(err error) error {
		return fmt.Errorf("%s-%d: %w: what was set aside of it does not come back: %w", key.Topic, key.Partition, ErrStorage, err)
	}
	found, err := s.strays.Find(s.fs, key, topicID)
	switch {
	case err != nil:
		return nil, failed(err)
	case len(found) == 0:
		return nil, nil
	case len(found) > 1:
		return nil, failed(fmt.Errorf("%s and %s are both of it; move one away", found[0].Path, found[1].Path))
	}
	d := s.dirOf(found[0].Dir)
	s.mu.Lock()
	stale := d.stale[key]
	s.mu.Unlock()
	if stale { // what the checkpoint files say is about another log of the name
		if err := s.writeCheckpoints(d, nil); err != nil {
			return nil, failed(err)
		}
	}
	path := filepath.Join(d.path, layout.PartitionDir(key.Topic, key.Partition))
	if err := s.fs.Rename(found[0].Path, path); err != nil {
		return nil, failed(err)
	}
	s.strays.Remove(found[0])
	p := s.newPartition(d, key, path)
	p.SetConfig(c) // before the janitor and the cleaner see it: the defaults may delete
	err = d.Sync()
	if err == nil {
		err = p.recoverFrom(p.recoveryTask())
	}
	if err != nil { // tried again by mend
		err = failed(err)
		s.mu.Lock()
		s.broken[key] = &broken{err, d, path, &volume.State{}}
		s.mu.Unlock()
		return nil, err
	}
	s.mu.Lock()
	s.publish(key, p)
	s.mu.Unlock()
	s.logger.Info("a partition that was set aside is back", "dir", path, "was", found[0].Path, "startOffset", p.LogStartOffset(), "endOffset", p.LogEndOffset())
	return p, nil
}

// settleDouble sets aside that of two directories of a partition that is of another topic id: its topic was deleted and made
// anew while the log directory was missing. Caller: exclusive.
func (s *Store) settleDouble(key checkpoint.Key, topicID [16]byte) error {
	s.mu.Lock()
	b, p := s.broken[key], s.Get(key.Topic, key.Partition)
	s.mu.Unlock()
	if b == nil || p == nil {
		return nil
	}
	id, err := checkpoint.ReadPartitionMetadata(s.fs, b.path)
	if err != nil || (id == topicID) == (p.topicID == topicID) {
		return nil // mend says what is wrong
	}
	other := p
	if p.topicID == topicID {
		s.mu.Lock()
		s.publish(key, nil)
		s.mu.Unlock()
		s.openPartition(b.dir, key, b.path, b.st)
		other = s.Get(key.Topic, key.Partition)
	}
	if other != nil {
		s.logger.Warn("a partition is in two log directories: that of another topic id is set aside", "dir", other.path(), "found", checkpoint.UUIDString(other.topicID), "wanted", checkpoint.UUIDString(topicID))
		_, err = s.setStray(other)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.topicID == topicID {
		s.publish(key, p)
	}
	if err != nil {
		s.broken[key] = &broken{err, b.dir, b.path, b.st}
	}
	return err
}

// giveWay removes p, which a crash left empty and without an id when it was made, where there is data of the topic id that
// was set aside. Caller: exclusive.
func (s *Store) giveWay(p *Partition, topicID [16]byte) (went bool, err error) {
	if p.LogEndOffset() > 0 {
		return false, nil
	}
	found, err := s.strays.Find(s.fs, checkpoint.Key{Topic: p.topic, Partition: p.id}, topicID)
	if err != nil {
		return false, p.wrap(fmt.Errorf("%w: %w", ErrStorage, err))
	}
	if len(found) == 0 {
		return false, nil
	}
	aside, err := s.setAside(p, layout.DeleteDirSuffix)
	if err != nil {
		return false, err
	}
	s.janitor.Remove(aside)
	return true, nil
}

func (s *Store) dirOf(v *volume.Dir) *logDir {
	for _, d := range s.dirs {
		if d.Dir == v {
			return d
		}
	}
	panic("BUG: a directory of no log directory: " + v.Path)
}
