package main

import (
	"context"
	"errors"

	"loaderd/internal/corpus/gosource"
	"loaderd/tokenizer"
)

// openTokenizing encodes the same files of Go's library in every worker, each with a separate encoder. Warm workers
// have encoded them once before. Cold workers have a new tokenizer and new encoders, so that all of them look up and
// store the same new words concurrently.
func openTokenizing(ctx context.Context, most int, warm bool) (measured, error) {
	texts, err := goFiles(ctx, most)
	if err != nil {
		return measured{}, err
	}
	return measured{close: func() error { return nil }, do: func(workers int) (spent, error) {
		model, err := tokenizer.Load("gpt2", tokenizer.Options{})
		if err != nil {
			return spent{}, err
		}
		encoders, ids := make([]*tokenizer.Encoder, workers), make([][]int32, workers)
		encode := func(i int) (size int64, err error) {
			for _, text := range texts {
				ids[i] = encoders[i].Encode(ids[i][:0], text)
				size += int64(len(text))
			}
			return size, nil
		}
		for i := range encoders {
			encoders[i], ids[i] = model.NewEncoder(), make([]int32, 0, 1<<20)
			if warm {
				if _, err := encode(i); err != nil {
					return spent{}, err
				}
			}
		}
		return together(workers, encode)
	}}, nil
}

// goFiles returns files of Go's library with at most the given number of bytes.
func goFiles(ctx context.Context, most int) (texts [][]byte, err error) {
	for b, err := range gosource.Files(ctx) {
		if err != nil {
			return nil, err
		}
		if most -= len(b); most < 0 {
			break
		}
		texts = append(texts, b)
	}
	if len(texts) == 0 {
		return nil, errors.New("no file of Go's library is within the bytes")
	}
	return texts, nil
}
