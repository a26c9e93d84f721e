package objects

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// rangeBody is the response to a request for a range of bytes.
type rangeBody struct {
	io.ReadCloser
	isWhole bool // it begins at byte 0, because the server ignores ranges
}

// getRange requests the bytes [from, to) of an object.
func getRange(client *http.Client, r *http.Request, o Object, from, to int64,
	denied string) (body rangeBody, _ http.Header, _ error) {
	r.Header.Set("Range", byteRange(from, to))
	answer, err := doRequest(client, r, o.URL, denied)
	if err != nil {
		return body, nil, err
	}
	length, coding := answer.ContentLength, answer.Header.Get("Content-Encoding")
	if answer.StatusCode == http.StatusPartialContent && answer.Header.Get("Content-Range") == "" {
		length = to - from
	} else if length < 0 && coding != "" && coding != "identity" {
		err := &Error{Kind: Invalid, URL: o.URL, Err: fmt.Errorf("the server compresses the response (Content-Encoding: "+
			"%.40s), so its bytes are not those of the object", coding),
			hint: "disable the compression of this object in the server"}
		return body, nil, errors.Join(err, answer.Body.Close())
	}
	body, err = newRangeBody(answer.Body, o, from, to, answer.Header.Get("Content-Range"), length)
	return body, answer.Header, err
}

// newRangeBody checks that a response has the bytes of an object from from on, and closes it otherwise. length is the
// length of the response in bytes, negative if it is not known.
func newRangeBody(r io.ReadCloser, o Object, from, to int64, contentRange string, length int64) (rangeBody, error) {
	body := rangeBody{r, contentRange == ""}
	begin, size, ok := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "/")
	var err error
	switch {
	case body.isWhole && (length < 0 || length == o.Size):
		return body, nil
	case body.isWhole && length == to-from:
		err = &Error{Kind: Invalid, URL: o.URL, Err: errors.New("the server does not name the range of bytes that it sends " +
			"(Content-Range)")}
	case body.isWhole:
		err = changedError(o, fmt.Sprintf("it has %d bytes, it had %d", length, o.Size))
	case ok && size != "*" && size != strconv.FormatInt(o.Size, 10):
		err = changedError(o, fmt.Sprintf("it has %s bytes, it had %d", size, o.Size))
	case !strings.HasPrefix(begin, strconv.FormatInt(from, 10)+"-"):
		err = &Error{Kind: Invalid, URL: o.URL, Err: fmt.Errorf("for the bytes from %d on the server sends %.80q", from,
			contentRange)}
	default:
		return body, nil
	}
	return body, errors.Join(err, r.Close())
}

// checkTag returns an error if a response is for another version of the object.
func checkTag(o Object, tag string) error {
	if tag != "" && o.Version != "" && tag != o.Version {
		return changedError(o, "its ETag is another one")
	}
	return nil
}

func changedError(o Object, how string) error {
	return &Error{Kind: Changed, URL: o.URL, Err: fmt.Errorf("the object has changed since it was listed: %s", how)}
}
