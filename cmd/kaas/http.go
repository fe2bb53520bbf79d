package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"kaas/internal/limits"
	"kaas/meta/config"
	"kaas/obs"
)

// httpServer serves /healthz, /readyz and /metrics.
type httpServer struct {
	server *http.Server
	addr   net.Addr
	done   chan struct{}
}

// startHTTP returns nil without an error when http.address is empty, and when
// it was not set and its default is taken: two brokers on one host are common,
// and the second one must serve Kafka all the same. An address that the
// operator chose must be had.
func startHTTP(cfg *config.Broker, health *obs.Health, registry *obs.Registry, logger *slog.Logger) (*httpServer, error) {
	if cfg.HTTPAddress == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", cfg.HTTPAddress)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) && !cfg.IsSet("http.address") {
			logger.Warn("http.address is in use: running without /healthz, /readyz and /metrics; set another address, or an empty one to switch it off",
				slog.String("http.address", cfg.HTTPAddress))
			return nil, nil
		}
		return nil, fmt.Errorf("http.address %s: %w", cfg.HTTPAddress, err)
	}
	h := &httpServer{addr: listener.Addr(), done: make(chan struct{}), server: &http.Server{
		Handler:           httpHandler(health, registry, cfg.ProfilingPprofEnable),
		ReadHeaderTimeout: limits.HTTPHeaderTimeout,
		MaxHeaderBytes:    limits.HTTPHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}}
	go func() {
		defer close(h.done)
		if err := h.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("http.address is no longer served", slog.String("http.address", cfg.HTTPAddress), slog.Any("error", err))
		}
	}()
	return h, nil
}

func httpHandler(health *obs.Health, registry *obs.Registry, withPprof bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok") // a peer that is gone needs no answer
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, reasons := health.State()
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, reasons)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		registry.Write(w)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, rootPage(withPprof))
	})
	if withPprof {
		servePprof(mux)
	}
	return mux
}

// rootPage says which paths there are.
func rootPage(withPprof bool) string {
	page := "kaas, a Kafka-compatible broker. Here are:\n\n" +
		"/healthz  200 while the process answers\n" +
		"/readyz   200 while the broker serves, else 503 and why\n" +
		"/metrics  Prometheus' text format\n"
	if withPprof {
		page += "/debug/pprof/  profiles\n"
	}
	return page
}

func (h *httpServer) stop(ctx context.Context) error {
	if h == nil {
		return nil
	}
	err := h.server.Shutdown(ctx)
	<-h.done
	return err
}
