package kube

import (
	"context"

	"kaas/meta"
)

// FileStore is the ResourceStore over YAML files.
type FileStore struct{ meta.ResourceStore }

// OpenFileStore reads all resources and watches their files.
func OpenFileStore(FileStoreOptions) (*FileStore, error) { panic("kube: not yet") }

// Close ends the watching of files. Every write was durable already.
func (s *FileStore) Close() error { panic("kube: not yet") }

// Reconciler makes status follow spec.
type Reconciler struct{}

// StartReconciler returns after the first full pass: from then on every topic
// that is to be served has its id in status.
func StartReconciler(context.Context, ReconcilerOptions) (*Reconciler, error) { panic("kube: not yet") }

// Close stops the reconciler.
func (r *Reconciler) Close() { panic("kube: not yet") }
