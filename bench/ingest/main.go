// Ingest measures how fast loaderd publish stores documents of files in the embedded server, compared with the same
// documents prepared in memory. Server and publisher are separate processes on the same cores. It prints a table.
//
//	bin/ingest -megabytes 300 -rounds 3
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"loaderd/bench/record"
	"loaderd/internal/config"
	"loaderd/internal/corpus/gosource"
	"loaderd/stream"
	"loaderd/stream/publish"
	"loaderd/stream/server"
)

// source is the name of the source of the published documents.
const source = "bench"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ingest:", err)
		os.Exit(1)
	}
}

type options struct {
	bytes   int64
	rounds  int
	loaderd string
	python  string // interpreter with the client's dependencies; empty for none
	only    string // names of inputs, separated by commas; empty for all
	json    bool
}

func run() error {
	var o options
	megabytes := flag.Int64("megabytes", 300, "text to publish, pieces of Go's library again and again")
	flag.IntVar(&o.rounds, "rounds", 3, "measurements of every input; their median counts")
	flag.StringVar(&o.loaderd, "loaderd", "bin/loaderd", "the program whose publish command is measured")
	flag.StringVar(&o.python, "python", "", "interpreter with the dependencies of loaderd.publish, to measure it too")
	flag.StringVar(&o.only, "only", "", "inputs to measure, separated by commas; default: all")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	serve := flag.String("serve", "", "run an embedded server in this data folder until standard input ends")
	prepared := flag.String("prepared", "", "publish documents of memory to the server of this data folder")
	flag.Parse()
	o.bytes = *megabytes * 1e6
	ctx := context.Background()
	switch {
	case *serve != "":
		return serveStream(ctx, *serve)
	case *prepared != "":
		return publishPrepared(ctx, *prepared, o.bytes)
	}
	record.WarnOfLoad(os.Stderr)
	return o.measure(ctx)
}

// streamConfig returns the configuration of an embedded server in a folder.
func streamConfig(dir string) stream.Config {
	c := config.Default().Stream
	c.Dir, c.Listen = dir, "127.0.0.1:0"
	return c
}

func newLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// serveStream prints a line once the server accepts documents.
func serveStream(ctx context.Context, dir string) (err error) {
	store, err := stream.Open(ctx, streamConfig(dir), newLog())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.EnsureDocuments(ctx); err != nil {
		return err
	}
	if _, err := store.EnsureRecords(ctx); err != nil {
		return err
	}
	// As a daemon has it. Without it, producers wait for its owner.
	if _, err := store.EnsureKeyValue(ctx, stream.ReadersBucket, "runs that read the stream"); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// published is the result of one publisher.
type published struct {
	Documents  int64   `json:"documents"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

// publishPrepared publishes documents that are complete in memory before the time starts.
func publishPrepared(ctx context.Context, dir string, bytes int64) error {
	var prepared []stream.Message
	for d, err := range documents(ctx, bytes) {
		if err != nil {
			return err
		}
		prepared = append(prepared, stream.Message{ID: publish.DocumentID(source, d.id, 0, d.text, ""), Label: d.id,
			Path: d.id, Data: d.text})
	}
	c := streamConfig(dir)
	c.URL = server.HolderURL(dir)
	store, err := stream.OpenProducer(ctx, c, newLog())
	if err != nil {
		return err
	}
	defer store.Close()
	cpu, began := record.ProcessorTime(), time.Now()
	p, err := publish.New(ctx, store, source, publish.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Publish(ctx, prepared...); err != nil {
		return err
	}
	done, err := p.Flush(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(published{done.Documents, time.Since(began).Seconds(),
		(record.ProcessorTime() - cpu).Seconds()})
}

// result is the measurement of one input.
type result struct {
	Input       string  `json:"input"`
	MBs         float64 `json:"text_mb_per_second"`
	Ratio       float64 `json:"ratio"`                     // to documents in memory
	NsPerByte   float64 `json:"publisher_cpu_ns_per_byte"` // 0 if the server's process publishes
	rates, nsec []float64
}

// Names of documents in memory: of the baseline, and of Python.
const (
	inMemory = "in memory"
	inPython = "in memory of Python"
)

// inPulled is the name of JSON lines that a daemon pulls over HTTP.
const inPulled = "JSON lines pulled over HTTP"

// measure measures all inputs in every round, so that slow changes of the machine affect all of them.
func (o options) measure(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "loaderd-ingest")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	text := int64(0)
	for d, err := range documents(ctx, o.bytes) {
		if err != nil {
			return err
		}
		text += int64(len(d.text))
	}
	files := map[string]string{}
	results := []*result{{Input: inMemory}}
	for _, w := range writers {
		if !o.selects(w.name) {
			continue
		}
		files[w.name] = filepath.Join(dir, "corpus"+w.extension)
		if err := writeFile(ctx, files[w.name], o.bytes, w.write); err != nil {
			return err
		}
		results = append(results, &result{Input: w.name})
	}
	if o.selects(inParts) || o.selects(inInterleaved) {
		all := filepath.Join(dir, "parts")
		if err := writeParts(ctx, all, o.bytes); err != nil {
			return err
		}
		for _, name := range []string{inParts, inInterleaved} {
			files[name] = all
			results = append(results, &result{Input: name})
		}
	}
	if o.selects(inPulled) {
		files[inPulled] = filepath.Join(dir, "pulled.jsonl")
		if err := writeFile(ctx, files[inPulled], o.bytes, writeLines); err != nil {
			return err
		}
		results = append(results, &result{Input: inPulled})
	}
	if o.python != "" && o.selects(inPython) {
		results = append(results, &result{Input: inPython})
	}
	for round := range o.rounds {
		for i, r := range results {
			folder := filepath.Join(dir, fmt.Sprintf("data-%d-%d", round, i))
			store := o.publishTo
			if r.Input == inPulled {
				store = o.pullTo
			}
			p, err := store(ctx, folder, r.Input, files[r.Input])
			if err != nil {
				return fmt.Errorf("%s: %w", r.Input, err)
			}
			r.rates = append(r.rates, float64(text)/1e6/p.Seconds)
			r.nsec = append(r.nsec, p.CPUSeconds*1e9/float64(text))
		}
	}
	for _, r := range results {
		r.MBs, r.NsPerByte = record.Median(r.rates), record.Median(r.nsec)
		r.Ratio = r.MBs / results[0].MBs
	}
	return o.print(results)
}

func (o options) selects(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

// publishTo starts a server in a data folder and publishes an input to it.
func (o options) publishTo(ctx context.Context, dir, input, file string) (p published, err error) {
	child := exec.Command(os.Args[0], "-serve", dir)
	child.Stderr = os.Stderr
	stop, err := child.StdinPipe()
	if err != nil {
		return p, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return p, err
	}
	if err := child.Start(); err != nil {
		return p, err
	}
	defer func() {
		err = errors.Join(err, stop.Close(), child.Wait(), os.RemoveAll(dir))
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return p, errors.New("the server ended")
	}
	command := exec.Command(o.loaderd, "publish", "--json", "--source", source, file)
	switch input {
	case inInterleaved:
		command.Args = append(command.Args, "--interleave")
	case inMemory:
		command = exec.Command(os.Args[0], "-prepared", dir, "-megabytes", fmt.Sprint(o.bytes/1e6))
	case inPython:
		library, err := gosource.Dir(ctx)
		if err != nil {
			return p, err
		}
		command = exec.Command(o.python, "bench/python/publish_texts.py", server.HolderURL(dir), fmt.Sprint(o.bytes), library)
	}
	command.Env = append(os.Environ(), "LOADERD_STREAM__DIR="+dir, "PYTHONPATH=python/src", "PYTHONDONTWRITEBYTECODE=1")
	answer, err := command.Output() // its progress on standard error is a part of err
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return p, fmt.Errorf("%s: %w: %s", command.Path, err, failed.Stderr)
	}
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(answer, &p); err != nil {
		return p, fmt.Errorf("decode the publisher's summary: %w", err)
	}
	p.CPUSeconds = cmp.Or(p.CPUSeconds,
		(command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds())
	return p, nil
}

func (o options) print(results []*result) error {
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	fmt.Printf("%s %d MB of text.\n", record.ThisMachine(), o.bytes/1e6)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "input\tMB/s\tratio\tCPU ns/byte\t")
	for _, r := range results {
		cpu := "-"
		if r.NsPerByte > 0 {
			cpu = fmt.Sprintf("%.1f", r.NsPerByte)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%s\t\n", r.Input, r.MBs, r.Ratio, cpu)
	}
	return w.Flush()
}
