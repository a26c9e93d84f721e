package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/flightclient"
)

// phase is what the reader and the daemon did while the reader read.
type phase struct {
	steps  int
	took   time.Duration
	cpu    time.Duration // of the daemon
	memory int64         // maximum resident size of the daemon
}

func (p phase) perSecond() float64 { return float64(p.steps) / p.took.Seconds() }

// perStep is the daemon's processor time per step.
func (p phase) perStep() time.Duration { return p.cpu / time.Duration(max(p.steps, 1)) }

// result is the measurement of a flood, by round.
type result struct {
	name           string
	alone, flooded []phase
}

// share returns the reader's speed with the flood by its speed alone: the median of all rounds, and the extremes. The
// phases of a round follow each other, so that other load on the machine affects one round, not the median.
func (r result) share() (median, lowest, highest float64) {
	shares := make([]float64, len(r.alone))
	for i := range shares {
		shares[i] = r.flooded[i].perSecond() / r.alone[i].perSecond()
	}
	slices.Sort(shares)
	return shares[len(shares)/2], shares[0], shares[len(shares)-1]
}

// sum adds the phases of all rounds.
func sum(phases []phase) (all phase) {
	for _, p := range phases {
		all.steps, all.took, all.cpu = all.steps+p.steps, all.took+p.took, all.cpu+p.cpu
		all.memory = max(all.memory, p.memory)
	}
	return all
}

// measure measures a flood against a new daemon.
func measure(ctx context.Context, f flood, o options) (r result, err error) {
	r.name = f.name
	folder, err := os.MkdirTemp("", "loaderd-floods")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	d, err := startDaemon(ctx, folder, f.tls)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if _, err := d.read(ctx, o.phase); err != nil { // fills the cache
		return r, err
	}
	for range o.rounds {
		alone, err := d.read(ctx, o.phase)
		if err != nil {
			return r, err
		}
		flooded, err := d.flooded(ctx, o, f)
		if err != nil {
			return r, err
		}
		r.alone, r.flooded = append(r.alone, alone), append(r.flooded, flooded)
		if err := d.idle(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// running is a daemon in another process.
type running struct {
	target
	process *exec.Cmd
	end     io.Closer // its standard input; closing it stops the daemon
}

// startDaemon starts a daemon over documents for the steps, and waits until the steps are planned.
func startDaemon(ctx context.Context, folder string, tls bool) (*running, error) {
	args := []string{"daemon", folder}
	if tls {
		args = append(args, "tls")
	}
	d := &running{process: self(ctx, args...)}
	in, err := d.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	d.end = in
	out, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &d.target)
	}
	if err == nil && d.Flight == "" {
		err = errNoTarget
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a daemon: %w", err), d.stop())
	}
	return d, nil
}

func (d *running) stop() error {
	return errors.Join(d.end.Close(), d.process.Wait())
}

// self returns a command that runs this program, with the same standard error.
func self(ctx context.Context, args ...string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// flooded measures a phase while an attacker runs.
func (d *running) flooded(ctx context.Context, o options, f flood) (phase, error) {
	attacker := self(ctx, "attack", f.name, strconv.Itoa(o.attacker))
	told, _ := json.Marshal(d.target) // strings always encode
	attacker.Stdin = strings.NewReader(string(told))
	if err := attacker.Start(); err != nil {
		return phase{}, err
	}
	wait(ctx, o.settle)
	p, err := d.read(ctx, o.phase)
	_ = attacker.Process.Kill() // it does not end otherwise
	_ = attacker.Wait()         // the error of the kill
	return p, err
}

const (
	// A daemon counts as idle once it has used at most idleShare of a processor in idleWindows consecutive windows of
	// idleWindow.
	idleWindow  = 200 * time.Millisecond
	idleShare   = 0.1
	idleWindows = 4
	// idleWithin limits the wait until the daemon is idle.
	idleWithin = time.Minute
)

// idle waits until the daemon has finished the work of a flood, so that the next phase does not include it.
func (d *running) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, idleWithin)
	defer cancel()
	before := processorTime(d.process.Process.Pid)
	for quiet := 0; quiet < idleWindows; {
		if wait(ctx, idleWindow); ctx.Err() != nil {
			return fmt.Errorf("wait until the daemon is idle: %w", ctx.Err())
		}
		spent := processorTime(d.process.Process.Pid)
		if quiet++; spent-before > time.Duration(idleShare*float64(idleWindow)) {
			quiet = 0
		}
		before = spent
	}
	return nil
}

// memoryEvery is the interval of reading the daemon's memory.
const memoryEvery = 20 * time.Millisecond

// read reads steps repeatedly and samples the daemon's memory.
func (d *running) read(ctx context.Context, long time.Duration) (p phase, err error) {
	config, err := d.trust()
	if err != nil {
		return p, err
	}
	client, err := flightclient.Open(d.Flight, flightclient.Options{Token: d.Good, TLS: config,
		Window: flightclient.BulkWindow,
		Reuse:  true})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	watching, stop := context.WithCancel(ctx)
	most := make(chan int64, 1)
	go func() { most <- d.highest(watching) }()
	defer func() { stop(); p.memory = <-most }()
	before := processorTime(d.process.Process.Pid)
	defer func() { p.cpu = processorTime(d.process.Process.Pid) - before }()
	began := time.Now()
	over, end := context.WithCancel(ctx) // no deadline, because it would be sent to the daemon
	defer time.AfterFunc(long, end).Stop()
	defer end()
	for err == nil {
		err = client.Read(over, api.Ticket{Steps: steps}, func(flightclient.Batch) error {
			p.steps++
			return over.Err()
		})
	}
	p.took = time.Since(began)
	if over.Err() != nil && ctx.Err() == nil { // the phase is over, even if the reader waits
		err = nil
	}
	return p, err
}

// highest returns the daemon's maximum memory until ctx ends.
func (d *running) highest(ctx context.Context) (most int64) {
	for {
		most = max(most, resident(d.process.Process.Pid))
		if wait(ctx, memoryEvery); ctx.Err() != nil {
			return most
		}
	}
}

// resident returns the resident memory of a process in bytes, 0 if unknown.
func resident(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if size, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// processorTime returns the processor time that a process has used, 0 if unknown.
func processorTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // after the name
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, f := range fields[11:13] { // user and system time
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ of Linux
}

// wait returns after a time, or when ctx ends.
func wait(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
