package format

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"loaderd/tokenizer/internal/merge"
)

// maxRankLine bounds a line of a rank file. The longest published token has 512 bytes.
const maxRankLine = 1 << 20

// ReadRanks reads a rank file. Each line has a token's bytes in base64 and its rank. The library has no reader for
// these.
func ReadRanks(in io.Reader) ([]Rank, error) {
	var list []Rank
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
			return nil, fmt.Errorf("line %d: %s is no token in base64", n, Truncate(strconv.Quote(string(fields[0]))))
		}
		rank, err := strconv.ParseUint(string(fields[1]), 10, 32)
		if err != nil || rank > merge.MaxID {
			return nil, fmt.Errorf("line %d: rank %s is not an integer in 0..%d", n, Truncate(strconv.Quote(string(fields[1]))),
				merge.MaxID)
		}
		if other, ok := lineOf[string(token)]; ok {
			return nil, fmt.Errorf("line %d: token %s is that of line %d", n, Truncate(strconv.Quote(string(token))), other)
		}
		if other, ok := lineWith[int32(rank)]; ok {
			return nil, fmt.Errorf("line %d: rank %d is that of line %d", n, rank, other)
		}
		lineOf[string(token)], lineWith[int32(rank)] = n, n
		list = append(list, Rank{string(token), int32(rank)})
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

// SumRanks returns a hash of a rank file's content, independent of the order and the ends of its lines.
func SumRanks(list []Rank) string {
	h := sha256.New()
	for _, x := range slices.SortedFunc(slices.Values(list), ByRank) {
		fmt.Fprintf(h, "%d %x\n", x.Rank, x.Token)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Rank is a token of a rank file: its bytes and its rank, which is its id.
type Rank struct {
	Token string
	Rank  int32
}

// ByRank compares tokens by their ranks.
func ByRank(a, b Rank) int { return cmp.Compare(a.Rank, b.Rank) }
