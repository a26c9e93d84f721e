package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"loaderd/bench/record"
	"loaderd/internal/relatedness"
	"loaderd/packonline/similarity"
)

// queries searches, for every document of a pool, the most related one.
func (c *corpus) queries(retriever string, pool int) record.Answer {
	x := similarity.New(*base(8192, pool).SimilarityConfig())
	if retriever == "dense" {
		config := base(8192, pool)
		config.Splice.Retriever = retriever
		x = similarity.New(*config.SimilarityConfig())
	}
	for i, d := range c.documents[:pool] {
		x.Add(int32(i), similarity.Entry{Seq: uint64(i), Length: int32(len(d.IDs)), Hint: c.hints[retriever][i]})
	}
	var top []similarity.Candidate
	same := 0
	start := record.ProcessorTime()
	for i := range pool {
		top = x.Top(int32(i), 1, math.MaxInt32, top)
		if len(top) > 0 && c.documents[top[0].Slot].Path == c.documents[i].Path {
			same++
		}
	}
	seconds := (record.ProcessorTime() - start).Seconds()
	return record.Answer{Retriever: retriever, PerSecond: float64(pool) / seconds, SameFile: float64(same) / float64(pool)}
}

// hand writes a pool to a folder for other programs: documents as JSON lines of ids and path, vectors as float32, and
// the results of this program.
func (c *corpus) hand(folder string, pool int) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	write := func(name string, f func(io.Writer) error) error {
		file, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		w := bufio.NewWriter(file)
		if err := f(w); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return file.Close()
	}
	if err := write("documents.jsonl", func(w io.Writer) error {
		e := json.NewEncoder(w)
		for _, d := range c.documents[:pool] {
			if err := e.Encode(map[string]any{"ids": d.IDs, "path": d.Path}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := write("vectors.f32", func(w io.Writer) error {
		for _, d := range c.documents[:pool] {
			if err := binary.Write(w, binary.LittleEndian, embed(d)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return record.Write(filepath.Join(folder, "answered.json"), map[string]any{
		"pool": pool, "machine": record.ThisMachine(),
		"answers": []record.Answer{c.queries("bm25", pool), c.queries("dense", pool)},
	})
}

// dimension of the embeddings.
const dimension = 384

// embed replaces a model's embedding: a document's counts of rare tokens, projected at random. Similar documents have
// close vectors, and for the search they are like any others.
func embed(d relatedness.Document) []float32 {
	count := map[int32]int{}
	for _, id := range d.IDs {
		count[id]++
	}
	v := make([]float64, dimension)
	for id, n := range count {
		weight := (1 + math.Log(float64(n))) * math.Log(float64(id)+2)
		x := uint64(id)*0x9e3779b97f4a7c15 + 1
		for i := range v {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			if x&1 == 0 {
				v[i] += weight
			} else {
				v[i] -= weight
			}
		}
	}
	var sum float64
	for _, y := range v {
		sum += y * y
	}
	out := make([]float32, dimension)
	for i, y := range v {
		out[i] = float32(y / (math.Sqrt(sum) + 1e-12))
	}
	return out
}

// hint creates the retrieval hints of the documents, for these retrievers.
func (c *corpus) hint(retrievers ...string) error {
	c.hints = map[string][]*similarity.Hint{}
	for _, retriever := range retrievers {
		config := base(8192, 1)
		config.Splice.Retriever, config.Splice.PathBonus = retriever, 1 // the bonus needs paths
		m := similarity.NewHintMaker(*config.SimilarityConfig())
		list := make([]*similarity.Hint, len(c.documents))
		start := record.ProcessorTime()
		for i, d := range c.documents {
			var vector []int8
			if retriever == "dense" {
				var err error
				if vector, err = similarity.NormalizeVector(embed(d), dimension); err != nil {
					return err
				}
			}
			list[i] = m.Hint("", d.IDs, d.Path, vector)
		}
		if retriever == "bm25" {
			fmt.Fprintf(os.Stderr, "terms of documents made at %.0fM tokens/s\n",
				float64(c.tokens)/1e6/(record.ProcessorTime()-start).Seconds())
		}
		c.hints[retriever] = list
	}
	return nil
}
