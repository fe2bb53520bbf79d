package main

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"kaas/meta/config"
	"kaas/obs"
)

func TestBusyDefaultOfHTTPAddressIsAWarning(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cfg := *config.DefaultBroker()
	cfg.HTTPAddress = taken.Addr().String() // as if it were the default: no key set it
	var log bytes.Buffer
	h, err := startHTTP(&cfg, &obs.Health{}, obs.NewRegistry(), obs.NewLogger(&log, true, slog.LevelInfo))
	if err != nil || h != nil {
		t.Fatalf("%v %v", h, err)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), cfg.HTTPAddress) {
		t.Errorf("%q", log.String())
	}
	if err := h.stop(t.Context()); err != nil {
		t.Error(err)
	}
}
