// Endtoend measures the whole path in one run: documents in JetStream, through the daemon of this process, to a stock
// pyarrow reader in a separate process. It prints one JSON object: text and tokens per second, CPU by stage, peak
// memory.
//
//	bin/endtoend -documents 20000
//	bin/endtoend -documents 20000 -tokenized
//	bin/endtoend -documents 20000 -files bin/loaderd
//
// With -files, loaderd publish reads the documents from a file of JSON lines while the daemon packs and serves them.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"loaderd/bench/record"
	"loaderd/internal/config"
	"loaderd/internal/corpus/gosource"
	"loaderd/internal/daemon"
	"loaderd/stream"
	"loaderd/stream/publish"
	"loaderd/tokenizer"
)

type result struct {
	Documents  int                `json:"documents"`
	Tokenized  bool               `json:"tokenized"`
	Tokenizer  string             `json:"tokenizer"`
	Workers    int                `json:"workers"`
	TextMB     float64            `json:"text_mb"`
	Seconds    float64            `json:"seconds"`
	TextMBs    float64            `json:"text_mb_per_second"`
	TokensS    float64            `json:"tokens_per_second"`
	FirstBatch float64            `json:"first_batch_seconds"`
	CPUSeconds float64            `json:"daemon_cpu_seconds"`
	Stages     map[string]float64 `json:"daemon_cpu_share"`
	PeakMB     int64              `json:"peak_rss_mb"`
	AloneMBs   float64            `json:"alone_mb_per_second,omitempty"` // only tokenizing the same text
	ReaderMB   int64              `json:"reader_peak_rss_mb"`
	ReaderCPU  float64            `json:"reader_cpu_seconds"` // including its start, which imports pyarrow
	Reader     json.RawMessage    `json:"reader"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "endtoend:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	documents := flag.Int("documents", 20000, "documents to publish, files of Go's library again and again")
	tokenized := flag.Bool("tokenized", false, "publish token ids instead of text")
	name := flag.String("tokenizer", "gpt2", "built-in tokenizer")
	python := flag.String("python", "python3", "Python with pyarrow and numpy")
	heap := flag.String("heap", "", "write a heap profile of the daemon here at the end")
	cpuFile := flag.String("cpu", "", "write the daemon's CPU profile here")
	script := flag.String("reader", "bench/python/read_all.py", "the reader")
	baseline := flag.Bool("alone", false, "measure tokenizing alone too, in a separate process")
	only := flag.Bool("only-alone", false, "only tokenize, and print the bytes of text a second")
	files := flag.String("files", "", "loaderd program that publishes a file while the daemon runs; empty: before")
	writing := flag.String("write", "", "only write this file of JSON lines, and print the bytes of text")
	filling := flag.String("fill", "", "only publish, into this data folder, and print the bytes of text")
	flag.Parse()
	ctx := context.Background()
	if *only {
		texts, err := goSource(ctx)
		if err != nil {
			return err
		}
		speed, err := alone(texts, *documents, *name)
		fmt.Println(speed)
		return err
	}
	if *writing != "" {
		n, err := writeLines(ctx, *writing, *documents)
		fmt.Println(n)
		return err
	}
	dir := *filling
	if dir == "" {
		if dir, err = os.MkdirTemp("", "loaderd-bench"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}

	c := config.Default()
	c.Stream.Dir, c.Stream.Listen, c.Flight.Listen, c.HTTP.Listen = dir, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Flight.Insecure = true // its readers are in this process
	c.Tokenizer.Name = *name
	r := result{Documents: *documents, Tokenized: *tokenized, Tokenizer: *name, Workers: runtime.GOMAXPROCS(0)}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if *filling != "" {
		n, err := fill(ctx, c, *documents, *tokenized, log)
		fmt.Println(n)
		return err
	}
	file := filepath.Join(dir, "documents.jsonl")
	prepare := []string{"-fill", dir}
	if *files != "" {
		prepare = []string{"-write", file}
	}
	n, err := child(prepare...)
	if err != nil {
		return fmt.Errorf("prepare the documents: %w", err)
	}
	r.TextMB = n / 1e6
	if *baseline {
		if r.AloneMBs, err = child("-only-alone"); err != nil {
			return fmt.Errorf("tokenize alone: %w", err)
		}
		r.AloneMBs /= 1e6
	}

	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	began, cpu := time.Now(), record.ProcessorTime()
	d, err := daemon.Start(ctx, c, log)
	if err != nil {
		return err
	}
	reader := exec.Command(*python, *script, d.FlightURI())
	var figures bytes.Buffer
	reader.Stderr, reader.Stdout = os.Stderr, &figures
	if err := reader.Start(); err != nil {
		return err
	}
	if *files != "" {
		publish := exec.Command(*files, "publish", "--source", "bench", file)
		publish.Env = append(os.Environ(), "LOADERD_STREAM__DIR="+dir)
		if out, err := publish.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", publish, err, out)
		}
	}
	if _, err := d.Run().Seal(ctx); err != nil {
		return err
	}
	if err := reader.Wait(); err != nil {
		return fmt.Errorf("%s: %w", *script, err)
	}
	r.Reader = figures.Bytes()
	r.CPUSeconds = (record.ProcessorTime() - cpu).Seconds()
	r.ReaderCPU = (reader.ProcessState.UserTime() + reader.ProcessState.SystemTime()).Seconds()
	pprof.StopCPUProfile()
	if *cpuFile != "" {
		if err := os.WriteFile(*cpuFile, profile.Bytes(), 0o666); err != nil {
			return err
		}
	}
	var read struct {
		Tokens     float64 `json:"tokens"`
		FirstBatch float64 `json:"first_batch_at"`
		LastBatch  float64 `json:"last_batch_at"`
		PeakMB     int64   `json:"peak_rss_mb"`
	}
	if err := json.Unmarshal(r.Reader, &read); err != nil {
		return fmt.Errorf("decode the reader's figures: %w", err)
	}
	zero := float64(began.UnixMicro()) / 1e6
	r.Seconds, r.FirstBatch, r.ReaderMB = read.LastBatch-zero, read.FirstBatch-zero, read.PeakMB
	r.TextMBs, r.TokensS = r.TextMB/r.Seconds, read.Tokens/r.Seconds
	if r.Stages, err = stages(&profile); err != nil {
		return err
	}
	if r.PeakMB, err = peakMB(); err != nil {
		return err
	}
	if *heap != "" {
		runtime.GC()
		f, err := os.Create(*heap)
		if err != nil {
			return err
		}
		if err := errors.Join(pprof.WriteHeapProfile(f), f.Close()); err != nil {
			return err
		}
	}
	if err := d.Stop(ctx); err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// child runs this program with more flags in a separate process, so that its memory is not the daemon's. It returns
// the number that the child prints.
func child(flags ...string) (float64, error) {
	command := exec.Command(os.Args[0], append(os.Args[1:], flags...)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// fill publishes the documents and returns their bytes of text. It stops its server, so that the measured daemon
// starts cold.
func fill(ctx context.Context, c config.Config, documents int, tokenized bool,
	log *slog.Logger) (total int64, err error) {
	texts, err := goSource(ctx)
	if err != nil {
		return 0, err
	}
	store, err := stream.Open(ctx, c.Stream, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := publish.New(ctx, store, "bench", publish.Options{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	model, err := tokenizer.Load(c.Tokenizer.Name, tokenizer.Options{})
	if err != nil {
		return 0, err
	}
	encoder := model.NewEncoder()
	for i := range documents {
		text := texts[i%len(texts)]
		total += int64(len(text))
		m := stream.Message{Subject: "docs.bench", ID: strconv.Itoa(i), Data: text}
		if tokenized {
			m.ContentType, m.Tokenizer = stream.TypeTokens, model.Fingerprint()
			m.Data = stream.AppendTokens(nil, encoder.Encode(nil, text))
		}
		if err := p.Publish(ctx, m); err != nil {
			return 0, err
		}
	}
	_, err = p.Flush(ctx)
	return total, err
}

// writeLines writes the documents as JSON lines and returns their bytes of text.
func writeLines(ctx context.Context, name string, documents int) (total int64, err error) {
	texts, err := goSource(ctx)
	if err != nil {
		return 0, err
	}
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewWriter(f)
	encoder := json.NewEncoder(lines)
	for i := range documents {
		text := texts[i%len(texts)]
		total += int64(len(text))
		if err := encoder.Encode(map[string]string{"text": string(text)}); err != nil {
			return 0, err
		}
	}
	return total, lines.Flush()
}

// goSource returns the files of Go's library, in pieces of at most 16 KB.
func goSource(ctx context.Context) ([][]byte, error) {
	var out [][]byte
	for b, err := range gosource.Files(ctx) {
		if err != nil {
			return nil, err
		}
		out = slices.AppendSeq(out, slices.Chunk(b, 16<<10))
	}
	return out, nil
}

// peakMB returns the peak resident size of this process in MB, including the JetStream server.
func peakMB() (int64, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Maxrss / 1024, err
}
