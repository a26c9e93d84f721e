// Tokenizers is loaderd's side of the comparison with other tokenizers. It encodes the documents of a file several
// times, and prints the time of each round as JSON, for encoding alone.
//
//	bin/tokenizers -tokenizer cl100k_base -workers 2 -ids ids documents
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"loaderd/tokenizer"
)

// result is the measurements of one run of the program. The first round is cold, because it creates the encoders.
type result struct {
	Load   float64   `json:"load_seconds"`
	Wall   []float64 `json:"wall_seconds"`
	CPU    []float64 `json:"cpu_seconds"`
	Bytes  int       `json:"bytes"`
	Tokens int       `json:"tokens"`
	Memory int64     `json:"memory_bytes"` // peak memory of the process, without documents and ids
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tokenizers:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("tokenizers", flag.ContinueOnError)
	name := f.String("tokenizer", "gpt2", "built-in name or tokenizer.json")
	workers := f.Int("workers", 1, "goroutines that encode")
	rounds := f.Int("rounds", 4, "times that the documents are encoded")
	idsFile := f.String("ids", "",
		"write the ids here: for each document their number, then they, as 32-bit integers, little endian")
	load := f.Bool("load", false, "measure loading, and the first texts, instead")
	if err := f.Parse(args); err != nil {
		return err
	}
	runtime.GOMAXPROCS(*workers)
	if *load {
		return measureLoading(*name, stdout)
	}
	began := time.Now()
	m, err := tokenizer.Load(*name, tokenizer.Options{})
	if err != nil {
		return err
	}
	r := result{Load: time.Since(began).Seconds()}
	text, err := os.ReadFile(f.Arg(0))
	if err != nil {
		return err
	}
	documents := bytes.SplitAfter(text, []byte{0})
	if last := documents[len(documents)-1]; len(last) > 0 {
		return fmt.Errorf("%s: the last document does not end with a NUL byte", f.Arg(0))
	}
	documents = documents[:len(documents)-1]
	for i, d := range documents {
		documents[i] = d[:len(d)-1]
		r.Bytes += len(documents[i])
	}
	pool := newPool(documents, *workers)
	// room for the ids of any text, as in a caller that encodes documents one by one
	for i := range pool.worker {
		pool.worker[i].ids = make([]int32, 2*len(text))
		for k := range pool.worker[i].ids {
			pool.worker[i].ids[k] = 1
		}
	}
	runtime.GC()
	for range *rounds {
		wall, cpu, err := timed(func() { pool.encode(m) })
		if err != nil {
			return err
		}
		r.Wall, r.CPU = append(r.Wall, wall), append(r.CPU, cpu)
	}
	kept := int64(len(text))
	for _, w := range pool.worker {
		r.Tokens += len(w.ids)
		kept += 4 * int64(cap(w.ids))
	}
	if r.Memory, err = peakMemory(); err != nil {
		return err
	}
	r.Memory -= kept
	if *idsFile != "" {
		if err := pool.write(*idsFile); err != nil {
			return err
		}
	}
	return json.NewEncoder(stdout).Encode(r)
}

// pool encodes documents on several goroutines, each of which takes the next few documents when it is ready.
type pool struct {
	documents [][]byte
	worker    []worker
	of        []place
	next      atomic.Int64
}

// worker keeps its encoder and all ids of a round.
type worker struct {
	encoder *tokenizer.Encoder
	ids     []int32
}

// place is the location of a document's ids.
type place struct{ worker, start, end int }

const atOnce = 8 // documents

func newPool(documents [][]byte, workers int) *pool {
	return &pool{documents: documents, worker: make([]worker, workers), of: make([]place, len(documents))}
}

func (p *pool) encode(m *tokenizer.Model) {
	p.next.Store(0)
	var wg sync.WaitGroup
	for i := range p.worker {
		wg.Go(func() {
			w := &p.worker[i]
			if w.encoder == nil {
				w.encoder = m.NewEncoder()
			}
			w.ids = w.ids[:0]
			for {
				end := int(p.next.Add(atOnce))
				for d := end - atOnce; d < min(end, len(p.documents)); d++ {
					start := len(w.ids)
					w.ids = w.encoder.Encode(w.ids, p.documents[d])
					p.of[d] = place{i, start, len(w.ids)}
				}
				if end >= len(p.documents) {
					return
				}
			}
		})
	}
	wg.Wait()
}

func (p *pool) write(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriterSize(file, 1<<20)
	var four []byte
	for _, at := range p.of {
		ids := p.worker[at.worker].ids[at.start:at.end]
		four = binary.LittleEndian.AppendUint32(four[:0], uint32(len(ids)))
		for _, id := range ids {
			four = binary.LittleEndian.AppendUint32(four, uint32(id))
		}
		if _, err := w.Write(four); err != nil {
			return err
		}
	}
	return w.Flush()
}
