package loader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"testing"

	"loaderd/internal/testscale"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

var errKilled = errors.New("the process is dead")

// mortal counts the writes of a process and kills the process at one of them. From then on, nothing is stored.
type mortal struct {
	mu     sync.Mutex
	left   int  // writes before the fatal one
	stored bool // whether the fatal write is stored, with its response lost
	dead   bool
}

func (m *mortal) store(f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	if m.left--; m.left >= 0 {
		return f()
	}
	m.dead = true
	if m.stored {
		_ = f()
	}
	return errKilled
}

type mortalLog struct {
	*memLog
	life *mortal
}

func (l mortalLog) Append(ctx context.Context, last uint64, records ...[]byte) error {
	return l.life.store(func() error { return l.memLog.Append(ctx, last, records...) })
}

// MaxRecord returns a limit that is so small that many steps take several records.
func (l mortalLog) MaxRecord() int { return 168 }

type mortalCheckpoints struct {
	*memCheckpoints
	life *mortal
}

func (c mortalCheckpoints) Put(ctx context.Context, term, step uint64,
	data []byte) (stored []backend.CheckpointInfo, err error) {
	err = c.life.store(func() (err error) {
		stored, err = c.memCheckpoints.Put(ctx, term, step, data)
		return err
	})
	return stored, err
}

func (c mortalCheckpoints) Claim(ctx context.Context, term uint64,
	begun bool) (stored []backend.CheckpointInfo, err error) {
	err = c.life.store(func() (err error) {
		stored, err = c.memCheckpoints.Claim(ctx, term, begun)
		return err
	})
	return stored, err
}

// story is a run's sequence of external events, independent of its processes: documents, a flush after the 60th, more
// documents, commits, and a seal after the last. Ranks read during all of it and resume at their position.
type story struct {
	fixture *fixture
	flushed bool
	sealed  bool
	got     []*assembly.Batch
	over    bool
	lives   int
}

func newStory(method string, checkpoint int) *story {
	s := &story{fixture: newFixture(config(method))}
	s.fixture.options.CheckpointSteps, s.fixture.options.Ahead = checkpoint, 2
	s.fixture.docs.lengths(someLengths(11, 60)...)
	return s
}

// live runs one process. It returns the cause of the process's end, which is nil at the end of the run.
func (s *story) live(t *testing.T, life *mortal) error {
	s.fixture.edges = func(e *backend.Backends) {
		e.Plan, e.Checkpoints = mortalLog{s.fixture.plan, life}, mortalCheckpoints{s.fixture.checkpoints, life}
	}
	run, err := s.fixture.open(t)
	s.fixture.edges = nil
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- run.Serve(ctx) }()
	defer func() {
		life.mu.Lock()
		life.dead = true // no final writes either
		life.mu.Unlock()
		cancel()
		<-served
	}()
	if !s.flushed {
		if _, err := run.Flush(ctx); err != nil {
			return err
		}
		s.flushed = true
		s.fixture.docs.lengths(someLengths(12, 100)...)
	}
	if !s.sealed {
		if at, err := run.Seal(ctx); err != nil || at != 160 {
			return fmt.Errorf("seal behind %d: %w", at, err)
		}
		s.sealed = true
	}
	s.lives++
	world := []int{4, 1, 2}[s.lives%3] // each process serves another world size
	r, err := run.Join(state.RankID{World: world}, uint64(len(s.got)))
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		step, err := r.Next(ctx)
		if isEOF(err) {
			s.over = true
			return nil
		}
		if err != nil {
			return err
		}
		whole := &assembly.Batch{Step: step.Index, Bucket: int(step.Bucket), Rows: len(step.Rows),
			Contents: map[uint64]document.Content{}}
		for rank := range world {
			first, n := state.RankID{Rank: rank, World: world}.RowRange(len(step.Rows))
			b, err := run.Assemble(ctx, step, first, n)
			if err != nil {
				return err
			}
			whole.Pieces, whole.Pad = append(whole.Pieces, b.Pieces...), b.Pad
			maps.Copy(whole.Contents, b.Contents)
		}
		s.got = append(s.got, whole)
		if len(s.got)%4 == 0 {
			if _, err := run.Commit(ctx, planrecord.DefaultJob, uint64(len(s.got))); err != nil {
				return err
			}
		}
	}
}

// steps returns the steps of the log, read by a run that stores nothing.
func (s *story) steps(t *testing.T) (out []*plan.Step) {
	t.Helper()
	run, err := s.fixture.open(t)
	if err != nil {
		t.Fatal(err)
	}
	info := run.Info()
	kinds := map[byte]uint64{} // record kinds, see docs/reference/plan.md
	for _, b := range s.fixture.plan.records {
		kind := b[3]
		if planrecord.IsStepKind(kind) {
			kind = planrecord.StepPart{}.Kind()
		}
		kinds[kind]++
	}
	if kinds[planrecord.End{}.Kind()] != 1 || kinds[planrecord.StepPart{}.Kind()] <= info.Planned {
		t.Fatalf("the log of %d steps has %d records of steps, %d ends", info.Planned, kinds[planrecord.StepPart{}.Kind()],
			kinds[planrecord.End{}.Kind()])
	}
	for i := range info.Planned {
		step, err := run.Step(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, step)
	}
	return out
}

// Guarantee 3: a process can be killed at any write, before or after the write took effect. The next process makes
// the same plan. Ranks that resume, with another world size, get the same rows without gaps or duplicates.
func TestCrash_KilledAtAnyWriteResumesSamePlan(t *testing.T) {
	for _, method := range methods {
		for _, checkpoint := range testscale.Of([]int{3}, []int{0, 1, 3}) {
			t.Run(fmt.Sprintf("%s/checkpoint every %d", method, checkpoint), func(t *testing.T) {
				whole := newStory(method, checkpoint)
				if err := whole.live(t, &mortal{left: 1 << 30}); err != nil {
					t.Fatal(err)
				}
				want := whole.steps(t)
				same := func(s *story, how string) {
					t.Helper()
					if !reflect.DeepEqual(s.steps(t), want) {
						t.Fatalf("%s: the plan differs", how)
					}
					if !reflect.DeepEqual(s.got, whole.got) {
						t.Fatalf("%s: the reader got other rows", how)
					}
				}
				for _, stored := range []bool{false, true} {
					for k, alive := 0, false; !alive; k++ {
						s := newStory(method, checkpoint)
						how := fmt.Sprintf("killed at store %d, stored %v", k, stored)
						err := s.live(t, &mortal{left: k, stored: stored})
						if alive = err == nil; !alive && !errors.Is(err, errKilled) {
							t.Fatalf("%s: %v", how, err)
						}
						if !s.over {
							if err := s.live(t, &mortal{left: 1 << 30}); err != nil {
								t.Fatalf("%s, then: %v", how, err)
							}
						}
						same(s, how)
					}
					for every := 3; every < 8; every++ { // each process starts with two writes: its term, and the claim with that term
						s := newStory(method, checkpoint)
						how := fmt.Sprintf("killed again and again at store %d, stored %v", every, stored)
						for !s.over {
							if err := s.live(t, &mortal{left: every, stored: stored}); err != nil && !errors.Is(err, errKilled) {
								t.Fatalf("%s: %v", how, err)
							}
						}
						same(s, how)
					}
				}
			})
		}
	}
}
