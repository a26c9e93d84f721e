package torture_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/flightclient"
	"loaderd/internal/lengths"
	"loaderd/loader/plan"
)

// producer publishes an input from a separate process, which is killed at times and restarted.
type producer struct {
	name string
	make func(ctx context.Context) *exec.Cmd

	mu   sync.Mutex
	cmd  *exec.Cmd
	last bytes.Buffer
}

// run restarts the process until it exits with success.
func (p *producer) run(ctx context.Context) error {
	for tries := 0; ctx.Err() == nil; tries++ {
		p.mu.Lock()
		p.last.Reset()
		p.cmd = p.make(ctx)
		p.cmd.Stderr, p.cmd.Stdout = &p.last, &p.last
		err := p.cmd.Start()
		cmd := p.cmd
		p.mu.Unlock()
		if err == nil {
			err = cmd.Wait()
		}
		if err == nil {
			return nil
		}
		if code := cmd.ProcessState.ExitCode(); code != -1 && tries > 20 { // not killed
			return fmt.Errorf("%s: %w: %s", p.name, err, p.last.String())
		}
		pause(ctx, 300*time.Millisecond)
	}
	return ctx.Err()
}

// kill kills the process if it is running; run restarts it.
func (p *producer) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
}

// document returns tokens that identify a document: the producer's number, then the document's number in two tokens.
func document(producer, number, length int, r *rand.Rand) []int32 {
	ids := make([]int32, max(length, 3))
	for k := range ids {
		ids[k] = r.Int32N(1 << 16)
	}
	ids[0], ids[1], ids[2] = int32(producer), int32(number>>8), int32(number&0xff)
	return ids
}

// writeInput writes the documents of a producer, one JSON object per line.
func writeInput(t *testing.T, producer, documents int, seed uint64) (string, [][]int32) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, uint64(producer)))
	var b bytes.Buffer
	var all [][]int32
	for i, n := range lengths.LogNormal(documents, seed+uint64(producer)) {
		ids := document(producer, i, int(min(n, 3000)), r)
		line, err := json.Marshal(map[string]any{"ids": ids})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
		all = append(all, ids)
	}
	file := filepath.Join(t.TempDir(), fmt.Sprintf("input-%d.jsonl", producer))
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, all
}

// byCommand publishes an input with loaderd publish.
func byCommand(t *testing.T, nats, input string) *producer {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "loaderd")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/loaderd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return &producer{name: "loaderd publish", make: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, binary, "publish", "--daemon", nats, "--source", "command", "--tokenizer-fingerprint",
			tokens, input)
	}}
}

// pythonProducer publishes the lines of a file, slowly enough that documents remain for most of the faults.
const pythonProducer = `
import itertools, json, sys, time, loaderd
url, tokenizer, path = sys.argv[1:]

class Lines:
    def __init__(self, first=0):
        self.first = first

    def skip(self, n):
        return Lines(self.first + n)

    def __iter__(self):
        with open(path) as lines:
            for line in itertools.islice(lines, self.first, None):
                time.sleep(0.02)
                yield json.loads(line)

loaderd.publish(Lines(), url, source="python", name="input", tokenizer=tokenizer)
`

// byPython publishes an input with the Python package.
func byPython(t *testing.T, nats, input string) *producer {
	t.Helper()
	environment, err := exec.Command("make", "--silent", "--no-print-directory", "environment").Output()
	if err != nil {
		t.Fatalf("make environment: %v", err)
	}
	python := filepath.Join(strings.TrimSpace(string(environment)), "bin", "python")
	return &producer{name: "the Python publisher", make: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, python, "-c", pythonProducer, nats, tokens, input)
		cmd.Env = append(os.Environ(), "PYTHONPATH=python/src", "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	}}
}

// onceEach checks that the steps of all ranks together have each document of all producers once and complete.
func onceEach(t *testing.T, ranks [][]flightclient.Batch, published ...[][]int32) {
	t.Helper()
	got := map[uint64]map[int32]int32{} // by document: its tokens by position
	for _, batches := range ranks {
		for _, b := range batches {
			for i, pieces := range b.Documents {
				at := i * b.L
				for j, p := range pieces {
					document := p.Sequence
					if b.Sources != nil {
						document = plan.Ref(int(b.Sources[i][j]), p.Sequence)
					}
					if got[document] == nil {
						got[document] = map[int32]int32{}
					}
					for k := range int32(p.Length) {
						if _, twice := got[document][int32(p.Start)+k]; twice {
							t.Fatalf("token %d of document %x is in the steps twice", int32(p.Start)+k, document)
						}
						got[document][int32(p.Start)+k] = b.InputIDs[at]
						at++
					}
				}
			}
		}
	}
	seen := map[[2]int]uint64{}
	for sequence, doc := range got {
		producer, number := int(doc[0]), int(doc[1])<<8|int(doc[2])
		if producer >= len(published) || number >= len(published[producer]) {
			t.Fatalf("document %x is nobody's", sequence)
		}
		if other, twice := seen[[2]int{producer, number}]; twice {
			t.Fatalf("document %d of producer %d is duplicated, as %x and %x", number, producer, other, sequence)
		}
		seen[[2]int{producer, number}] = sequence
		want := published[producer][number]
		for k, id := range want {
			if have, there := doc[int32(k)]; !there || have != id || len(doc) != len(want) {
				t.Fatalf("document %x (%d of producer %d) has %d tokens, want %d, or others", sequence, number, producer,
					len(doc), len(want))
			}
		}
	}
	for producer, all := range published {
		for number := range all {
			if _, there := seen[[2]int{producer, number}]; !there {
				t.Fatalf("document %d of producer %d is in no step: of %d documents there are %d", number, producer,
					len(all), len(seen))
			}
		}
	}
}
