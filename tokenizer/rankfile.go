package tokenizer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxRankLine bounds a line of a rank file. The longest published token has 512 bytes.
const maxRankLine = 1 << 20

// readRanks reads a rank file: a line a token, its bytes in base64 and its rank.
func readRanks(in io.Reader) ([]rankEntry, error) {
	var list []rankEntry
	lineOf := map[string]int{}  // token
	lineWith := map[int32]int{} // rank
	lines := bufio.NewScanner(&boundedReader{in, maxFileBytes})
	lines.Buffer(nil, maxRankLine)
	n := 0
	for lines.Scan() {
		n++
		fields := bytes.Fields(lines.Bytes())
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: want a token in base64 and its rank, have %d fields", n, len(fields))
		}
		token, err := base64.StdEncoding.Strict().DecodeString(string(fields[0]))
		if err != nil || len(token) == 0 {
			return nil, fmt.Errorf("line %d: %s is no token in base64", n, cut(strconv.Quote(string(fields[0]))))
		}
		rank, err := strconv.ParseUint(string(fields[1]), 10, 32)
		if err != nil || rank > maxID {
			return nil, fmt.Errorf("line %d: rank %s is not an integer in 0..%d", n, cut(strconv.Quote(string(fields[1]))), maxID)
		}
		if other, ok := lineOf[string(token)]; ok {
			return nil, fmt.Errorf("line %d: token %s is that of line %d", n, cut(strconv.Quote(string(token))), other)
		}
		if other, ok := lineWith[int32(rank)]; ok {
			return nil, fmt.Errorf("line %d: rank %d is that of line %d", n, rank, other)
		}
		lineOf[string(token)], lineWith[int32(rank)] = n, n
		list = append(list, rankEntry{string(token), int32(rank)})
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d bytes", maxRankLine)
		}
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(list) == 0 {
		return nil, errors.New("the file has no token")
	}
	return list, nil
}

// knownRanks are published rank files that a pattern and special tokens belong to. Those of llama3 are the ones that all of
// its versions have.
var knownRanks = []struct {
	sum     string // see sumRanks
	pattern string
	special map[string]int32
}{
	{"22f185846c3da6972451b865f7a74e12f84c19a13b961e0eeae8468a17aa78fa", "gpt2", builtins[0].special},
	{"74248f4aec6cbe440b5d7cf75d4e6cf57a788f2297a9e62f73347da83795871b", "cl100k", builtins[2].special},
	{"6d12c35070eec1461435eb1dd5917d3017695992188898477959ce17077f69c6", "o200k", builtins[3].special},
	{"96691ae4a7281d8af2281dd617074f73d2e32080b07eec3f11d20288532941f7", "llama3", map[string]int32{
		"<|begin_of_text|>": 128000, "<|end_of_text|>": 128001, "<|start_header_id|>": 128006, "<|end_header_id|>": 128007,
		"<|eot_id|>": 128009,
	}},
	{"18fe0daf01fe55579ce04fa3aa1d9b359163c13f04b1782cf300021860150161", "qwen", map[string]int32{
		"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645,
	}},
}

// sumRanks is a hash of a rank file's content, whatever the order and the ends of its lines.
func sumRanks(list []rankEntry) string {
	h := sha256.New()
	for _, x := range slices.SortedFunc(slices.Values(list), byRank) {
		fmt.Fprintf(h, "%d %x\n", x.rank, x.token)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// fileOfRanks is the definition of a rank file. Its pattern and special tokens are the options', else those of a known file.
func fileOfRanks(in io.Reader, o rankOptions) (*definition, error) {
	list, err := readRanks(in)
	if err != nil {
		return nil, fmt.Errorf("read rank file: %w", err)
	}
	pattern, special := "", map[string]int32{}
	sum := sumRanks(list)
	for _, k := range knownRanks {
		if k.sum == sum {
			pattern, special = familyPattern(k.pattern), k.special
		}
	}
	if o.pattern != "" {
		if pattern = familyPattern(o.pattern); pattern == "" {
			pattern = o.pattern
		}
	}
	if pattern == "" {
		return nil, fmt.Errorf("read rank file: it is none of those that are known; name the pattern that cuts text into words, "+
			"one of %v or a regular expression (option pattern), and its special tokens", patternNames())
	}
	if len(o.specialTokens) > 0 {
		if special, err = specialTokens(o.specialTokens, list); err != nil {
			return nil, err
		}
	}
	return rankDefinition(list, pattern, special)
}

// specialTokens reads "token=id", or "token", which has the id behind the last one.
func specialTokens(list []string, ranks []rankEntry) (map[string]int32, error) {
	next := int64(slices.MaxFunc(ranks, byRank).rank) + 1
	special := make(map[string]int32, len(list))
	for _, s := range list {
		content := s
		if k := strings.LastIndexByte(s, '='); k > 0 {
			if id, err := strconv.ParseInt(s[k+1:], 10, 32); err == nil {
				content, next = s[:k], id
			}
		}
		if _, ok := special[content]; ok || content == "" || next < 0 || next > maxID {
			return nil, fmt.Errorf("special token %q: want each token once, as TOKEN or TOKEN=ID with an id in 0..%d", s, maxID)
		}
		special[content] = int32(next)
		next++
	}
	return special, nil
}
