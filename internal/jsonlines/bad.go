package jsonlines

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Bad describes what is wrong with a line of JSON, in JSON's terms.
func Bad(err error, want string) error {
	var bad *json.UnmarshalTypeError
	if !errors.As(err, &bad) {
		return fmt.Errorf("want %s: %w", want, err)
	}
	is, _, _ := strings.Cut(bad.Value, " ") // "number 1.5"
	switch {
	case bad.Field == "":
		return fmt.Errorf("the line is %s, want an object: %s", Article(is), want)
	case bad.Type.Kind() == reflect.String:
		return fmt.Errorf("%q is %s, want a string", bad.Field, Article(is))
	}
	verb, what := "is", Article(is)
	if bad.Type.Kind() != reflect.Slice { // an element
		verb = "holds"
		if _, number, ok := strings.Cut(bad.Value, " "); ok {
			what = number
		}
	}
	list := "token ids"
	if t := bad.Type; t.Kind() == reflect.Float32 || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Float32 {
		list = "numbers"
	}
	return fmt.Errorf("%q %s %s, want a list of %s", bad.Field, verb, what, list)
}

// Article returns a noun, as used for a value of JSON or a part of a document, with its indefinite article.
func Article(noun string) string {
	switch noun {
	case "array", "object", "embedding":
		return "an " + noun
	case "bool":
		return "true or false"
	}
	return "a " + noun
}
