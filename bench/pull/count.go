package main

import (
	"bytes"
	"fmt"
	"strconv"

	"loaderd/internal/flightclient"
	"loaderd/tokenizer"
)

// count counts the tokens and errors of every document of a corpus in the steps. Documents have the sequences 1, 2,
// ... in order.
type count struct {
	model     *tokenizer.Model
	end       int32 // token after every document
	ended     []uint8
	tokens    []int32 // in the steps
	behind    []int32 // end of the last span
	seen      int64   // tokens of all documents
	misplaced int64   // documents with another document's number
	foreign   int64   // spans of no document
}

func newCount(documents int64, model *tokenizer.Model) (*count, error) {
	end, ok := model.EndOfText()
	if !ok {
		return nil, fmt.Errorf("tokenizer %s has no token for the end of a text", model.Name())
	}
	return &count{model: model, end: end.ID, ended: make([]uint8, documents), tokens: make([]int32, documents),
		behind: make([]int32, documents)}, nil
}

// take counts the contents of a batch.
func (c *count) take(b flightclient.Batch) error {
	for row, pieces := range b.Documents {
		ids := b.InputIDs[row*b.L : (row+1)*b.L]
		for _, p := range pieces {
			if int(p.Length) > len(ids) {
				return fmt.Errorf("row %d of step %d: pieces are longer than the row", row, b.Meta.Step)
			}
			piece := ids[:p.Length]
			ids = ids[p.Length:]
			i := int64(p.Sequence) - 1
			if i < 0 || i >= int64(len(c.tokens)) {
				c.foreign++
				continue
			}
			c.seen += int64(p.Length)
			c.tokens[i] += p.Length
			c.behind[i] = max(c.behind[i], p.Start+p.Length)
			if piece[len(piece)-1] == c.end {
				c.ended[i]++
			}
			if p.Start == 0 {
				text, err := c.model.Decode(nil, piece[:min(len(piece), 16)])
				if err != nil {
					return err
				}
				number, _, _ := bytes.Cut(bytes.TrimPrefix(text, []byte(numbered)), []byte(" "))
				if string(number) != strconv.FormatInt(i, 10) {
					c.misplaced++
				}
			}
		}
	}
	return nil
}

// result returns the numbers of documents that are missing, and that are duplicated, in whole or in part.
func (c *count) result() (missing, twice int64) {
	for i := range c.tokens {
		switch {
		case c.ended[i] > 1 || c.tokens[i] > c.behind[i]:
			twice++
		case c.ended[i] == 0 || c.tokens[i] < c.behind[i]:
			missing++
		}
	}
	return missing, twice
}
