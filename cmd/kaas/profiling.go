package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"strings"
	"time"

	"kaas/codec"
	"kaas/meta/config"
	"kaas/obs/profiling"
)

// startProfiling begins to push profiles when a Pyroscope server is set. It
// comes after the store, whose cluster id is a label.
func (s *server) startProfiling(context.Context) error {
	c := s.config
	if c.ProfilingPprofEnable {
		profiling.Contention(int(c.ProfilingMutexProfileFraction), int(c.ProfilingBlockProfileRateNs))
	}
	if c.ProfilingPyroscopeServerAddress == "" {
		return nil
	}
	stop, err := profiling.Start(profiling.Options{
		ServerAddress: c.ProfilingPyroscopeServerAddress, ApplicationName: c.ProfilingPyroscopeApplicationName, TenantID: c.ProfilingPyroscopeTenantID,
		User: c.ProfilingPyroscopeBasicAuthUser, Password: c.ProfilingPyroscopeBasicAuthPassword,
		Labels: profileLabels(c, s.store.ClusterID()), Types: c.ProfilingPyroscopeProfileTypes,
		UploadInterval:       time.Duration(c.ProfilingPyroscopeUploadIntervalMs) * time.Millisecond,
		MutexProfileFraction: int(c.ProfilingMutexProfileFraction), BlockProfileRateNs: int(c.ProfilingBlockProfileRateNs), Logger: s.logger,
	})
	if err == nil {
		s.onStop("profiling", func(context.Context) error {
			if err := stop(); err != nil { // no reason to call the broker's end unclean
				s.logger.Warn("profiling", slog.Any("error", err))
			}
			return nil
		})
	}
	return err
}

// profileLabels are those that are always there and the configured ones, which
// win.
func profileLabels(c *config.Broker, clusterID string) map[string]string {
	labels := map[string]string{"version": versionText(), "node": strconv.Itoa(int(c.NodeID)), "cluster": clusterID}
	if pod := os.Getenv("HOSTNAME"); pod != "" {
		labels["pod"] = pod
	}
	for _, label := range c.ProfilingPyroscopeLabels {
		name, value, _ := strings.Cut(label, "=")
		labels[name] = value
	}
	return labels
}

// labelled makes each API's handler run with the API's name as a label of the
// goroutine, if that is asked for.
func labelled(enabled bool, apis []codec.API) []codec.API {
	if !enabled {
		return apis
	}
	for i := range apis {
		labels, handle := profiling.APILabels(apis[i].Name), apis[i].Handle
		apis[i].Handle = func(r *codec.Request) {
			labels.Begin()
			handle(r)
			profiling.End()
		}
	}
	return apis
}

// servePprof adds /debug/pprof.
func servePprof(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
