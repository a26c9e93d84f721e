package arrowout_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/arrowout"
	"loaderd/loader/fault"
)

// visitors keeps the log entries about readers at level info.
type visitors struct {
	slog.Handler
	mu   sync.Mutex
	said []string
}

func (v *visitors) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (v *visitors) WithAttrs([]slog.Attr) slog.Handler               { return v }

func (v *visitors) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "reader joined" && r.Message != "reader left" {
		return nil
	}
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "address":
			if !strings.HasPrefix(a.Value.String(), "127.0.0.1:") {
				line += " from " + a.Value.String()
			}
		case "after":
		default:
			line += " " + a.Key + "=" + a.Value.String()
		}
		return true
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, line)
	return nil
}

func (v *visitors) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.said)
}

// The log has an entry when a reader starts and when it leaves, with the reason. Readers that are expected to return
// are not logged every time.
func TestReaderEvents_LoggedAtStartAndEnd(t *testing.T) {
	f, log := newFake(4, 4, 16), &visitors{}
	f.last = &fault.Error{Reason: fault.SourceDry, Message: "nothing new"}
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(f), slog.New(log), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s)
	all := func(ticket string) {
		for r := mustGet(t, c, ticket); r.Next(); {
		}
	}
	all(`{"rank":1,"world":2}`)
	for range 3 { // dropped, and returns
		all(`{"rank":1,"world":2,"step":4}`)
	}
	all(`{"rank":1,"world":2,"step":4,"job":"eval"}`) // another reader, which has not read before
	all(`{"rank":1,"world":2,"step":3}`)              // not the step at which it left
	for step := range 3 {                             // one stream per step
		all(fmt.Sprintf(`{"steps":1,"step":%d}`, step))
	}
	asked := make(chan struct{}, 1)
	f.onNext = func(ctx context.Context, step uint64) error {
		if step == 4 {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	r, cancel, err := get(t, c, `{"step":3}`)
	if err != nil || !r.Next() {
		t.Fatal(err, r.Err())
	}
	<-asked // the previous step is sent
	cancel()
	want := []string{
		"reader joined event=reader.joined rank=1 world=2 from_step=0",
		"reader left event=reader.left rank=1 world=2 from_step=0 at_step=4 why=nothing new (SOURCE_DRY)",
		"reader joined event=reader.joined rank=1 world=2 job=eval from_step=4",
		"reader left event=reader.left rank=1 world=2 job=eval from_step=4 at_step=4 why=nothing new (SOURCE_DRY)",
		"reader joined event=reader.joined rank=1 world=2 from_step=3",
		"reader left event=reader.left rank=1 world=2 from_step=3 at_step=4 why=nothing new (SOURCE_DRY)",
		"reader joined event=reader.joined rank=0 world=1 from_step=0",
		"reader left event=reader.left rank=0 world=1 from_step=0 at_step=1 why=it received all requested steps",
		"reader left event=reader.left rank=0 world=1 from_step=3 at_step=4 why=it closed the stream, or lost its connection",
	}
	eventually(t, "all is reported", func() bool { return log.count() >= len(want) })
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	f.onNext = nil
	f.last = nil
	waits := mustGet(t, c, `{"step":4,"rank":3,"world":4,"job":"eval"}`)
	s.Shutdown(ctx)
	waits.Next()
	<-s.ServeErr()
	want = append(want, "reader joined event=reader.joined rank=3 world=4 job=eval from_step=4",
		"reader left event=reader.left rank=3 world=4 job=eval from_step=4 at_step=4 why=the daemon stops "+
			"(SHUTTING_DOWN)")
	if got := strings.Join(log.said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the log says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
