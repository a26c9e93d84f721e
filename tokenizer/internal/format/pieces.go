package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"loaderd/tokenizer/internal/merge"
)

// Piece is an entry of the vocabulary of a Unigram model. Its id is its index.
type Piece struct {
	Token string
	Score float64
}

// readPieces reads the vocabulary of a Unigram model, a list of [piece, score].
func (r *configReader) readPieces() error {
	var list []Piece
	err := r.readList("model vocab", func(i int) error {
		if i > merge.MaxID {
			return fmt.Errorf("model vocab: more than %d pieces", merge.MaxID+1)
		}
		p, where := Piece{}, fmt.Sprintf("model vocab: piece %d", i)
		fields := 0
		err := r.readList(where, func(k int) error {
			v, err := r.dec.ReadValue()
			if err != nil {
				return err
			}
			fields++
			switch {
			case k == 0 && v.Kind() == '"':
				p.Token, err = r.decodeString(v)
			case k == 1 && v.Kind() == '0':
				p.Score, err = parseScore(string(v))
			default:
				return fmt.Errorf("%s: want [text, score], have %s", where, Truncate(v.String()))
			}
			return err
		})
		if err == nil && fields != 2 {
			err = fmt.Errorf("%s: want [text, score]", where)
		}
		list = append(growDouble(list), p)
		return err
	})
	r.decodedFields["vocab"] = list
	return err
}

// parseScore parses a JSON number as the reference does, which is not the nearest floating-point number: it divides or
// multiplies the number of all digits by a power of ten.
func parseScore(text string) (float64, error) {
	const maxPower = 308
	unrepresentable := func() error {
		return fmt.Errorf("model vocab: score %s is too large or too small", Truncate(text))
	}
	number, power, hasPower := strings.Cut(strings.ToLower(text), "e")
	exponent := 0
	if hasPower {
		e, err := strconv.Atoi(power)
		if err != nil || e < -2*maxPower || e > maxPower {
			return 0, unrepresentable()
		}
		exponent = e
	}
	number, negative := strings.CutPrefix(number, "-")
	whole, fraction, _ := strings.Cut(number, ".")
	var digits uint64
	isFull := false // further digits do not count
	for i, c := range whole + fraction {
		d := uint64(c - '0')
		isFull = isFull || digits > (math.MaxUint64-d)/10
		switch {
		case !isFull:
			digits = digits*10 + d
			if i >= len(whole) {
				exponent--
			}
		case i < len(whole):
			exponent++
		}
	}
	f := float64(digits)
	switch {
	case exponent < -2*maxPower || exponent > maxPower:
		return 0, unrepresentable()
	case exponent < -maxPower:
		f = f / 1e308 / pow10(-exponent-maxPower)
	case exponent < 0:
		f /= pow10(-exponent)
	default:
		if f *= pow10(exponent); math.IsInf(f, 0) {
			return 0, unrepresentable()
		}
	}
	if negative {
		f = -f
	}
	return f, nil
}

// pow10 returns the floating-point number nearest to a power of ten, 0 <= n <= 308.
func pow10(n int) float64 {
	f, _ := strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	return f
}
