package config

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"

	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

var errWrongType = errors.New("wrong type")

var (
	durationType = reflect.TypeFor[time.Duration]()
	tokenIDType  = reflect.TypeFor[TokenID]()
	tokensType   = reflect.TypeFor[mixture.Tokens]()
	epochsType   = reflect.TypeFor[mixture.Epochs]()
	scheduleType = reflect.TypeFor[[]mixture.Point]()
	phasesType   = reflect.TypeFor[[]runconfig.Phase]()
	fillType     = reflect.TypeFor[runconfig.Fill]()
)

// decode stores a value in a field. It converts only between obvious representations: no number is rounded, truncated
// or given a unit. text reports whether the value is from a layer that contains only text.
func (f *field) decode(c *Config, value any, text bool) error {
	if value == nil {
		return errWrongType
	}
	return f.set(f.value(c), value, text)
}

// set stores a value in to, which has the field's type.
func (f *field) set(to reflect.Value, value any, text bool) error {
	fresh := reflect.New(to.Type()) // a list replaces that of the previous layer
	hook := func(from, to reflect.Value) (any, error) { return f.convert(from, to, text) }
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: fresh.Interface(), DecodeHook: hook,
		TagName: "koanf", ErrorUnused: true})
	if err != nil {
		return err
	}
	if err := d.Decode(value); err != nil {
		return err
	}
	to.Set(fresh.Elem())
	return nil
}

func (f *field) convert(from, to reflect.Value, text bool) (any, error) {
	s, isText := from.Interface().(string)
	switch to.Type() {
	case durationType:
		if !isText {
			return nil, errWrongType // a bare number has no unit
		}
		return time.ParseDuration(s)
	case tokenIDType:
		if isText {
			return TokenID(s), nil
		}
		if !from.CanInt() {
			return nil, errWrongType
		}
		return TokenID(strconv.FormatInt(from.Int(), 10)), nil
	case tokensType:
		return mixture.ParseTokens(from.Interface())
	case phasesType, scheduleType:
		if text && isText {
			list, err := yaml.Parser().Unmarshal([]byte("list: " + s))
			return list["list"], err
		}
	case epochsType:
		return mixture.ParseEpochs(from.Interface())
	case fillType:
		if fill, ok := boolFill(from); ok {
			return fill, nil
		}
	}
	switch {
	case f.path == "start":
		return startText(from), nil
	case to.CanInt():
		return f.integer(from, to, text)
	case text && isText:
		return parseText(s, to)
	case to.CanUint() && !from.CanInt() && !from.CanUint():
		return nil, errWrongType
	}
	return from.Interface(), nil
}

// boolFill returns the fill that true or false represents.
func boolFill(from reflect.Value) (fill float64, ok bool) {
	switch from.Interface() {
	case true, "true":
		return 1, true
	case false, "false":
		return 0, true
	}
	return 0, false
}

// startText converts an unquoted sequence or time to text, and returns all other values unchanged.
func startText(from reflect.Value) any {
	if at, ok := from.Interface().(time.Time); ok {
		return at.Format(time.RFC3339Nano)
	}
	if from.CanInt() {
		return strconv.FormatInt(from.Int(), 10)
	}
	return from.Interface()
}

// parseText converts a value from a layer that contains only text.
func parseText(s string, to reflect.Value) (any, error) {
	switch {
	case to.CanUint():
		return strconv.ParseUint(s, 10, to.Type().Bits())
	case to.CanFloat():
		return strconv.ParseFloat(s, to.Type().Bits())
	case to.Kind() == reflect.Bool:
		return strconv.ParseBool(s)
	case to.Kind() == reflect.Slice:
		parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), ",")
		if to.Type().Elem().Kind() == reflect.String && strings.Trim(s, "[] ") == "" {
			parts = []string{}
		}
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return parts, nil
	}
	return s, nil
}

func (f *field) integer(from, to reflect.Value, text bool) (any, error) {
	var n int64
	var err error
	s, isText := from.Interface().(string)
	switch {
	case isText && f.size:
		n, err = parseSize(s)
	case isText && text:
		n, err = strconv.ParseInt(s, 10, 64)
	case from.CanInt():
		n = from.Int()
	case from.CanUint() && from.Uint() <= math.MaxInt64:
		n = int64(from.Uint())
	default:
		err = errWrongType
	}
	if err == nil && to.OverflowInt(n) {
		err = errWrongType
	}
	return n, err
}

// describeValues describes the values that a field accepts.
func (f *field) describeValues() string {
	t := f.kind
	switch {
	case t == epochsType:
		return "a number of 1 or more, or forever"
	case t == scheduleType:
		return "a list of points such as {tokens: 80e9, ramp: 2e9, weights: {web: 0.3, code: 0.7}} " +
			"or {after: web, weights: ...}"
	case t == phasesType:
		return "a list of phases such as {from_tokens: 12e9, rows: 1024}, each with rows, tokens or table"
	case t == durationType:
		return "a duration such as 30s or 5m"
	case t == fillType:
		return "a number such as 0.5, or true or false"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return "names, each with settings below it: teacher: {type: float32, fill: 0}"
	case t.Kind() == reflect.Map:
		return "names, each with a text: lang: string"
	case t == tokenIDType && strings.HasPrefix(f.path, "documents."):
		return "auto, none, a token id or the text of a special token"
	case t == tokenIDType:
		return "auto, none or a token id"
	case f.size:
		return "a number of bytes such as 1048576, 64MiB or 1GB"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "a list of texts"
	case t.Kind() == reflect.Slice:
		return "a list of whole numbers such as [1024, 2048]"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text (quote values that look like a number or a date)"
	case reflect.Zero(t).CanFloat():
		return "a number such as 0.5"
	case reflect.Zero(t).CanUint():
		return "a whole number of 0 or more"
	}
	return "a whole number"
}
