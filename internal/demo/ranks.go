package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/runconfig"
)

// record is what the ranks have read. Steps that are read again, after a rank was killed or to compare, must have the
// bytes of the first reading.
type record struct {
	rowsPerStep map[int]int // by row length

	mu       sync.Mutex
	steps    []stepRows // that all ranks have finished
	tokens   int64      // in these steps
	compared int64      // bytes that were read again
}

// stepRows is a step as it was read first.
type stepRows struct {
	bucket int
	rows   []digest
}

func newRecord(c runconfig.Config) *record {
	r := &record{rowsPerStep: map[int]int{}}
	for i, rows := range c.Steps.RowsPerBucket(c.Packing.Buckets) {
		r.rowsPerStep[c.Packing.Buckets[i]] = rows
	}
	return r
}

// readSteps returns the number of steps that all ranks have finished, and the tokens in them.
func (r *record) readSteps() (steps uint64, tokens int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return uint64(len(r.steps)), r.tokens
}

func (r *record) comparedBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.compared
}

// add adds a step that all ranks have received, in the order of their ranks. It checks that their shares are of this
// step, have equal shapes, and together contain all its rows, or that all ranks have ended; and that a step that was
// read before is the same.
func (r *record) add(got []stepShare, step uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := checkAgreement(got, step, r.rowsPerStep[got[0].Bucket]); err != nil {
		return err
	}
	if got[0].End {
		if step != uint64(len(r.steps)) {
			return fmt.Errorf("the run ended before step %d, and before step %d when it was read first", step, len(r.steps))
		}
		return nil
	}
	now, tokens := stepRows{bucket: got[0].Bucket}, int64(0)
	for _, s := range got {
		now.rows = append(now.rows, s.Rows...)
		tokens += s.Tokens
	}
	if step == uint64(len(r.steps)) {
		r.steps, r.tokens = append(r.steps, now), r.tokens+tokens
		return nil
	}
	before := r.steps[step]
	if now.bucket != before.bucket {
		return fmt.Errorf("step %d was read again with rows of %d tokens, first with %d", step, now.bucket, before.bucket)
	}
	for i := range now.rows {
		if now.rows[i] != before.rows[i] {
			return fmt.Errorf("row %d of step %d was read again with other bytes", i, step)
		}
	}
	r.compared += int64(len(now.rows) * now.bucket * bytesPerToken)
	return nil
}

// checkAgreement checks that all shares belong to the expected step, have equal shapes, and together contain all its
// rows, or that all ranks have ended.
func checkAgreement(got []stepShare, step uint64, rows int) error {
	first := got[0]
	for _, s := range got {
		switch {
		case s.End != first.End:
			return fmt.Errorf("readers disagree: at step %d rank %d has ended: %v, rank %d: %v", step, first.Rank, first.End,
				s.Rank, s.End)
		case s.End:
		case s.Step != step:
			return fmt.Errorf("rank %d got step %d, want step %d", s.Rank, s.Step, step)
		case s.Bucket != first.Bucket:
			return fmt.Errorf("readers disagree on step %d: rank %d has rows of %d tokens, rank %d of %d", step, first.Rank,
				first.Bucket, s.Rank, s.Bucket)
		case len(s.Rows)*len(got) != rows:
			return fmt.Errorf("rank %d of %d got %d of the %d rows of step %d", s.Rank, len(got), len(s.Rows), rows, step)
		}
	}
	return nil
}

// ranks are the reader processes of a data-parallel job. No rank starts a step before all ranks have finished the
// previous step, as with the collectives of a training step.
type ranks struct {
	options RankOptions // of each, without its rank
	record  *record
	// afterStep is called when all ranks have finished a step. If it returns true, the last rank is killed.
	afterStep func(ctx context.Context, step uint64) (kill bool, err error)

	processes []*rankProcess
}

// errKilled reports that a rank was killed by the demo.
var errKilled = errors.New("a rank was killed")

// rankStopTimeout is the time for which a rank may take to stop.
const rankStopTimeout = 5 * time.Second

// read reads the run from a step on with all ranks, until it ends. If a rank fails, all ranks end, as in a training
// job. The error is errKilled if afterStep requested it.
func (r *ranks) read(ctx context.Context, from uint64) (err error) {
	r.processes = nil
	defer func() {
		for _, p := range r.processes {
			p.stop()
		}
	}()
	for rank := range r.options.World {
		o := r.options
		o.Rank, o.Step = rank, from
		p, err := startRank(o)
		if err != nil {
			return err
		}
		r.processes = append(r.processes, p)
	}
	defer context.AfterFunc(ctx, func() { // their outputs end, and with them the calls below
		for _, p := range r.processes {
			p.kill()
		}
	})()
	for step := from; ; step++ {
		ended, err := r.readStep(ctx, step)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || ended:
			return err
		}
	}
}

// readStep waits until all ranks have finished a step, and lets them continue.
func (r *ranks) readStep(ctx context.Context, step uint64) (ended bool, err error) {
	got := make([]stepShare, len(r.processes))
	var all errgroup.Group
	for i, p := range r.processes {
		all.Go(func() error { return p.next(&got[i]) })
	}
	if err := all.Wait(); err != nil {
		return false, err
	}
	if err := r.record.add(got, step); err != nil || got[0].End {
		return true, err
	}
	for _, p := range r.processes {
		_, _ = p.stdin.Write([]byte{'\n'}) // of a rank that has ended, next returns the cause
	}
	kill, err := r.afterStep(ctx, step)
	if kill {
		r.processes[len(r.processes)-1].kill()
		return false, errKilled
	}
	return false, err
}

// rankProcess is a running rank.
type rankProcess struct {
	rank    int
	process *exec.Cmd
	stdin   io.WriteCloser
	shares  *json.Decoder
	log     *processLog
}

func startRank(o RankOptions) (*rankProcess, error) {
	process, err := command(RankCommand, "--uri", o.URI, "--data-dir", o.DataDir, "--rank", strconv.Itoa(o.Rank),
		"--world", strconv.Itoa(o.World), "--step", strconv.FormatUint(o.Step, 10))
	if err != nil {
		return nil, err
	}
	p := &rankProcess{rank: o.Rank, process: process, log: &processLog{log: io.Discard}}
	process.Stderr = p.log
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start rank %d: %w", o.Rank, err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start rank %d: %w", o.Rank, err)
	}
	p.stdin, p.shares = stdin, json.NewDecoder(stdout)
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start rank %d: %w", o.Rank, err)
	}
	return p, nil
}

// next receives the rank's share of the next step.
func (p *rankProcess) next(s *stepShare) error {
	if err := p.shares.Decode(s); err != nil {
		return fmt.Errorf("rank %d ended: %s", p.rank, p.log.lastLine(err.Error()))
	}
	return nil
}

// kill ends the process at once (SIGKILL).
func (p *rankProcess) kill() { _ = p.process.Process.Kill() } // fails only if it has ended

// stop requests the rank to stop, and kills it after a timeout.
func (p *rankProcess) stop() {
	_ = p.stdin.Close() // fails only if the rank has ended
	defer time.AfterFunc(rankStopTimeout, p.kill).Stop()
	_ = p.process.Wait() // errors have been returned by next
}
