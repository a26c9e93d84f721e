package action

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"loaderd/internal/api"
	"loaderd/loader/document"
)

// Bounds of one result of text and peek, which is for people to read and fits a gRPC message.
const (
	maxTextTokens    = 4096
	maxTextBytes     = 1 << 20 // of the tokens' texts in JSON encoding
	maxPeekDocuments = 16      // documents
)

// defaultPeek is how many documents peek returns by default.
const defaultPeek = 3

// showTimeout is the time limit for reading one document. An unreachable stream is reported after it.
const showTimeout = 10 * time.Second

// text sends a part of a document.
func (h *Handler) text(ctx context.Context, q requestBody, send func(any) error) error {
	document, there, err := documentRef("text", q, h.run.Info())
	if err != nil {
		return err
	}
	if !there {
		return invalidBodyError("text", "no stream has a document of that sequence",
			"send a sequence from ledger or peek")
	}
	return h.sendText(ctx, document, q, send)
}

// peek sends the first tokens of the documents that are planned next.
func (h *Handler) peek(ctx context.Context, q requestBody, send func(any) error) error {
	limit, cancel := context.WithTimeout(ctx, showTimeout)
	documents, err := h.run.NextDocuments(limit, q.source, int(cmp.Or(q.count, defaultPeek)))
	cancel()
	if err != nil {
		return err
	}
	for _, document := range documents[:min(len(documents), maxPeekDocuments)] {
		if err := h.sendText(ctx, document, q, send); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handler) sendText(ctx context.Context, document uint64, q requestBody, send func(any) error) error {
	limit, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	shown, err := h.run.ViewDocument(limit, document)
	if err != nil {
		return err
	}
	return send(h.textOf(shown, q.start, cmp.Or(q.tokens, maxTextTokens)))
}

// textOf returns that many tokens of a document from start on, fewer if their texts are long.
func (h *Handler) textOf(d document.View, start, tokens uint64) api.DocumentText {
	total := uint64(d.Len())
	start = min(start, total)
	out := api.DocumentText{Info: d.Info, Skip: string(d.Skip), Problem: d.Problem, Total: d.Len(), Start: int(start)}
	out.Tokens = d.TokenIDs(int(start), int(min(total, start+tokens)))
	if out.Tokens == nil {
		out.Tokens = []int32{}
	}
	if h.TokenText == nil {
		return out
	}
	out.Texts = make([]string, 0, len(out.Tokens))
	bytes, raw := 0, []byte(nil)
	for i, id := range out.Tokens {
		raw = h.TokenText(raw[:0], id)
		text := printableText(raw)
		if bytes += jsonSize(text); bytes > maxTextBytes && i > 0 {
			out.Tokens = out.Tokens[:i]
			break
		}
		out.Texts = append(out.Texts, text)
	}
	return out
}

// printableText returns the text of a token as a string. A token may hold a part of a character, whose bytes are shown
// as \xE4.
func printableText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&out, `\x%02X`, b[0])
		} else {
			out.Write(b[:n])
		}
		b = b[n:]
	}
	return out.String()
}

// jsonSize returns the size of a string in JSON, with the comma that follows it.
func jsonSize(text string) int {
	b, _ := json.Marshal(text) // a string always encodes
	return len(b) + len(",")
}
