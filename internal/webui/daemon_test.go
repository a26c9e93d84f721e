package webui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"loaderd/internal/api"
	"loaderd/internal/browsertest"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/natstest"
	"loaderd/loader/mixture"
	"loaderd/stream"
)

// The page of a real daemon with two sources, four ranks of which one is blocked, and a producer of invalid
// documents. It names the blocked rank, shows the content of a step, and seals the run, which then ends.
func TestDaemon_PageOfTwoSources(t *testing.T) {
	browser := browsertest.Chromium(t)
	d := twoSources(t)
	publishBoth(t, d.Store(), 600)
	release, finished := fourRanks(t, d.FlightURI())
	p := browsertest.Open(t, browser, d.PageURL(), browsertest.Usual)
	ready(p)

	p.Until(
		`/rank 3 of 4 of job "[^"]+" holds the others/i.test(document.querySelector("#sentence").textContent) && document.querySelector(".cell[data-holds]")?.textContent === "3"`)
	var now api.Status
	_, body := call(t, "GET", d.PageURL()+"/api/status", "")
	if err := json.Unmarshal([]byte(body), &now); err != nil {
		t.Fatal(err)
	}
	p.Says("#top", now.Run, "4 ranks reading")
	p.Says("#ranks-section", "4 ranks", "Rank 3 holds the others", "3 of 4")
	p.Says("#flow", "Published", "Planned ahead", "Committed")
	p.Says("#sources", "web", "70.0 %", "math", "30.0 %")
	p.Says("#sources", "documents undecodable")
	p.Until(`document.querySelectorAll("#dead li li").length > 0`)
	p.Says("#dead-section", "could not be decoded", "INVALID_JSON", "Document math/")
	p.Until(`document.querySelector("#daemons").textContent.includes("leader, term")`)
	p.Says("#daemons", now.Daemon[:strings.LastIndex(now.Daemon, "/")], "(this page)")
	p.Until(`document.querySelectorAll("#events > li").length > 0`)
	openCharts(p)
	p.Until(`document.querySelector("#chart-shares svg")?.getAttribute("aria-label").includes("web, target 70.0 %")`)

	p.Enter("#step", "1")
	p.Until(`document.querySelectorAll(".row").length === 8`)
	p.Says("#step-note", "Step 1: 8 rows of 512 tokens")
	p.Click(".piece")
	p.Until(`document.querySelectorAll(".token").length > 5`)
	p.Says(".about-piece", "Source", "Path", "published")
	path := browsertest.Eval[string](p,
		`[...document.querySelectorAll(".origin dt")].find((x) => x.textContent === "Path").nextElementSibling.textContent`)
	p.Enter("#document", path)
	p.Until(
		`document.querySelectorAll("#found li").length > 0 && document.querySelector("#found").textContent.includes("Step 1,")`)

	p.Click("#action-seal")
	p.Click("dialog button.do")
	p.Until(`document.querySelector("#acted").textContent.includes("recorded after document")`)
	release()
	for range 4 {
		if err := <-finished; err != nil {
			t.Error(err)
		}
	}
	p.Until(
		`document.querySelector("#health").textContent === "Ended" && document.querySelector("#sentence").textContent.includes("step")`)
	p.Until(`document.querySelector("#events").textContent.includes("seal")`)
}

// A daemon with one document stream shows ages and no sources. A daemon without documents shows a valid page.
func TestDaemon_PageOfOneStream(t *testing.T) {
	d := serving(t, func(*config.Config) {})
	p := browsertest.Open(t, browsertest.Chromium(t), d.PageURL(), browsertest.Usual)
	ready(p)
	p.Says("#top", "Waiting", "0 steps planned")
	p.Says("#ranks-section", "No rank is reading")
	p.Says("#dead-section", "No dead letters")
	publishBoth(t, d.Store(), 200)
	finished := make(chan error, 1)
	go func() { finished <- read(t.Context(), d.FlightURI(), 0, 1, func(int) {}) }()
	p.Until(`document.querySelectorAll(".heat .cell").length === 1`)
	p.Says("#ranks-section", "1 rank,", "0 of 1")
	p.Click("#action-seal")
	p.Click("dialog button.do")
	if err := <-finished; err != nil {
		t.Error(err)
	}
	p.Until(`document.querySelector("#health").textContent === "Ended"`)
	openCharts(p)
	p.Until(`Boolean(document.querySelector("#chart-age path")?.getAttribute("d"))`)
	if shown := browsertest.Eval[bool](p,
		`!document.querySelector("#sources-section").hidden || Boolean(document.querySelector("#chart-shares"))`); shown {
		t.Error("a run with one stream shows shares of sources")
	}
	p.Enter("#step", "0")
	p.Until(`document.querySelectorAll(".row").length === 8`)
	p.Click(".piece")
	p.Until(`document.querySelectorAll(".token").length > 5`)
	p.Says(".about-piece", "when its step was planned, published")
}

// twoSources starts a daemon whose run has two sources.
func twoSources(t *testing.T) *daemon.Daemon {
	t.Helper()
	return serving(t, func(c *config.Config) {
		c.Plan.Sources = map[string]mixture.Source{"web": {Weight: 0.7, Epochs: 1}, "math": {Weight: 0.3, Epochs: 1}}
	})
}

func serving(t *testing.T, change func(*config.Config)) *daemon.Daemon {
	t.Helper()
	c := config.Default()
	c.Stream.Dir, c.Stream.Listen = t.TempDir(), "127.0.0.1:0"
	c.Stream.MaxBytes, c.Stream.DeadLetterBytes, c.Stream.PlanBytes = 256<<20, 64<<20, 256<<20
	c.Flight.Listen, c.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Flight.Insecure = true // most of these tests do not concern authentication
	c.Plan.Packing.Buckets, c.Plan.Packing.Pool, c.Plan.Packing.MaxAge = []int{512}, 64, 256
	c.Plan.Shuffle.Window, c.Plan.Steps.Rows, c.Serve.Ahead = 16, 8, 8
	change(&c)
	d, err := daemon.Start(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return d
}

// publishBoth publishes documents of both sources. A tenth of the documents of math are invalid JSON.
func publishBoth(t *testing.T, store *stream.Store, n int) {
	t.Helper()
	var messages []stream.Message
	for i := range n {
		for _, source := range []string{"web", "math"} {
			id := fmt.Sprintf("%s/%d.txt", source, i)
			m := stream.Message{Subject: "docs." + source, ID: id, Path: id,
				Data: []byte(strings.Repeat(fmt.Sprintf("This is document %d of %s. ", i, source), 10+i%30))}
			if source == "math" && i%10 == 9 {
				m.ContentType, m.Data = stream.TypeJSON, []byte("{")
			}
			messages = append(messages, m)
		}
	}
	natstest.Publish(t, store, messages...)
}

// fourRanks read as one job. Rank 3 stops after its second step until it is released. finished receives the result of
// each rank.
func fourRanks(t *testing.T, uri string) (release func(), finished <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	released, ended := make(chan struct{}), make(chan error, 4)
	var ranks sync.WaitGroup
	for rank := range 4 {
		ranks.Go(func() {
			ended <- read(ctx, uri, rank, 4, func(step int) {
				if rank == 3 && step == 2 {
					select {
					case <-released:
					case <-ctx.Done():
					}
				}
			})
		})
	}
	t.Cleanup(func() {
		cancel()
		ranks.Wait()
	})
	return sync.OnceFunc(func() { close(released) }), ended
}

// read reads all steps of a rank over a connection with a flow-control window of about one batch, so that the daemon
// detects a blocked reader.
func read(ctx context.Context, uri string, rank, world int, each func(step int)) error {
	const window = 64 << 10
	client, err := flight.NewClientWithMiddleware(strings.TrimPrefix(uri, "grpc://"), nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	if err != nil {
		return err
	}
	defer client.Close()
	batches, err := client.DoGet(ctx, &flight.Ticket{Ticket: fmt.Appendf(nil, `{"rank":%d,"world":%d}`, rank, world)})
	if err != nil {
		return err
	}
	for step := 0; ; step++ {
		switch _, err := batches.Recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		each(step)
	}
}
