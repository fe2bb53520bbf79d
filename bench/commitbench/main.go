package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// way makes durable what a round appended: one batch to each of n files.
type way struct {
	name string
	open func(dir string, n, size int) (*run, error)
}

// run is a way that is being measured.
type run struct {
	round func() error
	close func() error
}

var ways = []way{
	{"serial fdatasync", serialSync},
	{"parallel fdatasync", parallelSync},
	{"pre-written, parallel fdatasync", prewrittenParallel},
	{"pre-written, sync_file_range + one fdatasync", prewrittenRange},
	{"syncfs", fileSystemSync},
	{"io_uring fdatasync", ringSync},
	{"journal, nothing written back", journalOnly},
	{"journal", journalSerial},
	{"journal, paced write-back", journalPaced},
	{"journal, O_DIRECT", journalDirect},
	{"journal, O_DIRECT, nothing written back", journalDirectOnly},
}

// deviceFigures are of /sys/dev/block/…/stat: completed writes, sectors of 512 bytes, flushes.
type deviceFigures struct{ writes, sectors, flushes int64 }

func main() {
	dir := flag.String("dir", ".", "directory on the volume to be measured")
	counts := flag.String("n", "1,10,100,1000", "numbers of files")
	seconds := flag.Float64("seconds", 2, "how long each way is measured for each number of files")
	size := flag.Int("bytes", 4096, "bytes that a round appends to each file")
	only := flag.String("only", "", "regular expression of the ways to measure")
	flag.Parse()
	if err := measure(*dir, *counts, *only, *size, *seconds); err != nil {
		fmt.Fprintln(os.Stderr, "commitbench:", err)
		os.Exit(1)
	}
}

// measure runs every way in blocks, each between two blocks of the bare loop, so that a ratio is of one stretch of time.
func measure(dir, counts, only string, size int, seconds float64) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err = os.MkdirTemp(dir, "commitbench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // scratch
	fmt.Println("| files | way | rounds | p50 ms | p99 ms | p99.9 ms | bare p50 | bare p99 | p99 ratio | writes/round | KiB/round | flushes/round | own CPU s/GB |")
	fmt.Println("|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, text := range strings.Split(counts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		for _, w := range ways {
			if !match.MatchString(w.name) {
				continue
			}
			if err := measureWay(dir, w, n, size, seconds); err != nil {
				fmt.Printf("| %d | %s | can't be measured: %v |\n", n, w.name, err)
			}
		}
	}
	return nil
}

func measureWay(dir string, w way, n, size int, seconds float64) error {
	bareDir, wayDir := filepath.Join(dir, "bare"), filepath.Join(dir, "way")
	for _, d := range []string{bareDir, wayDir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(d) }() // scratch
	}
	bare, err := serialSync(bareDir, 1, 4096)
	if err != nil {
		return err
	}
	defer func() { _ = bare.close() }() // scratch
	r, err := w.open(wayDir, n, size)
	if err != nil {
		return err
	}
	defer func() { _ = r.close() }() // scratch
	if err := syncAll(dir); err != nil {
		return err
	}
	var bareTook, took []time.Duration
	var device deviceFigures
	cpu := time.Duration(0)
	for range 4 {
		if bareTook, err = block(bare, bareTook, seconds/8); err != nil {
			return err
		}
		before, cpuBefore := readDevice(dir), ownCPU()
		if took, err = block(r, took, seconds/4); err != nil {
			return err
		}
		after := readDevice(dir)
		cpu += ownCPU() - cpuBefore
		device.writes += after.writes - before.writes
		device.sectors += after.sectors - before.sectors
		device.flushes += after.flushes - before.flushes
	}
	rounds := float64(len(took))
	p99, bare99 := percentile(took, 0.99), percentile(bareTook, 0.99)
	fmt.Printf("| %d | %s | %d | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f | %.1f | %.2f | %.3f |\n", n, w.name, len(took),
		percentile(took, 0.5), p99, percentile(took, 0.999), percentile(bareTook, 0.5), bare99, p99/bare99,
		float64(device.writes)/rounds, float64(device.sectors)/2/rounds, float64(device.flushes)/rounds,
		cpu.Seconds()*1e9/(rounds*float64(n*size)))
	return nil
}

func block(r *run, took []time.Duration, seconds float64) ([]time.Duration, error) {
	for started := time.Now(); time.Since(started).Seconds() < seconds; {
		at := time.Now()
		if err := r.round(); err != nil {
			return took, err
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}

// ownCPU is this process's, which a sync has write the pages in its caller's name; what kernel threads add is not in it.
func ownCPU() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// percentile is in milliseconds.
func percentile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Clone(took)
	slices.Sort(sorted)
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / 1e6
}

// readDevice is zero where the volume has no figures of its own.
func readDevice(dir string) (f deviceFigures) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return f
	}
	b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return f
	}
	var v [17]int64
	for i, text := range strings.Fields(string(b)) {
		if i < len(v) {
			v[i], _ = strconv.ParseInt(text, 10, 64) // the kernel writes numbers
		}
	}
	return deviceFigures{v[4], v[6], v[15]}
}

func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(d.Fd()))
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

// randomBytes do not compress and are never zero, on devices that look.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32() | 1)
	}
	return b
}
