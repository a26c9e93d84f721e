package loader

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

// assembler turns rows of references into rows of tokens. It depends on the plan and the document stream only, so any number of them
// give the same batches.
type assembler struct {
	docs  Documents
	cache *tokenCache
	pad   int32
	stall time.Duration      // how long a fetch may take
	once  singleflight.Group // one fetch a document, however many readers need it
}

// fetches bounds how many documents one batch fetches at a time.
const fetches = 8

// assemble returns rows [first, first+n) of a step.
func (a *assembler) assemble(ctx context.Context, s *Step, first, n int) (*Batch, error) {
	if first < 0 || n < 0 || first+n > len(s.Rows) {
		return nil, fmt.Errorf("assemble step %d: rows [%d, +%d) of %d", s.Index, first, n, len(s.Rows))
	}
	length := int(s.Bucket)
	b := &Batch{Step: s.Index, Bucket: length, First: first, Rows: n, Tokens: make([]int32, n*length), Pieces: s.Rows[first : first+n]}
	texts, err := a.documents(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("assemble step %d: %w", s.Index, err)
	}
	for i, pieces := range b.Pieces {
		row := b.Tokens[i*length : (i+1)*length]
		at := 0
		for _, p := range pieces {
			text := texts[p.Doc]
			end := int(p.Start) + int(p.Length)
			if end > len(text) || at+int(p.Length) > length {
				return nil, &Error{Reason: PlanMismatch,
					Message: fmt.Sprintf("step %d row %d names tokens [%d, %d) of document %d, which has %d", s.Index, first+i, p.Start, end, p.Doc, len(text)),
					Do:      "the document or the tokenizer is not the one that was planned; check the tokenizer and the stream",
					Facts:   map[string]string{"step": strconv.FormatUint(s.Index, 10), "sequence": strconv.FormatUint(p.Doc, 10)}}
			}
			at += copy(row[at:], text[p.Start:end])
		}
		for ; at < length; at++ {
			row[at] = a.pad
		}
	}
	return b, nil
}

// documents returns the tokens of every document that the batch names.
func (a *assembler) documents(ctx context.Context, b *Batch) (map[uint64][]int32, error) {
	texts := map[uint64][]int32{}
	var missing []uint64
	for _, pieces := range b.Pieces {
		for _, p := range pieces {
			if _, ok := texts[p.Doc]; ok {
				continue
			}
			text, ok := a.cache.get(p.Doc)
			if !ok {
				missing = append(missing, p.Doc)
			}
			texts[p.Doc] = text
		}
	}
	fetched := make([][]int32, len(missing))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetches)
	for i, sequence := range missing {
		g.Go(func() (err error) {
			fetched[i], err = a.fetch(ctx, sequence)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, sequence := range missing {
		texts[sequence] = fetched[i]
	}
	return texts, nil
}

func (a *assembler) fetch(ctx context.Context, sequence uint64) ([]int32, error) {
	// A fetch serves every waiting reader, so it outlives the one that began it: cancelling that one must not fail the others.
	done := a.once.DoChan(strconv.FormatUint(sequence, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.stall)
		defer cancel()
		text, err := a.docs.Tokens(ctx, sequence)
		if err == nil {
			a.cache.put(sequence, text)
		}
		return text, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-done:
		if r.Err != nil {
			return nil, fmt.Errorf("fetch document %d: %w", sequence, r.Err)
		}
		return r.Val.([]int32), nil
	}
}
