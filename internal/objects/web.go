package objects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const deniedWeb = "give an address that is signed, or one with a user and password (https://user:password@...)"

// webServer reads objects of web servers. Their names are their URLs.
type webServer struct {
	client *http.Client
	stores *Stores
}

// RedactAddress returns the name of an address. It omits user and password and replaces the query by its hash, because
// they may be secret.
func RedactAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return address
	}
	named := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if u.RawQuery != "" {
		sum := sha256.Sum256([]byte(u.RawQuery))
		named.Fragment = hex.EncodeToString(sum[:4])
	}
	return named.String()
}

// statAddress returns the object of an address.
func (s *Stores) statAddress(ctx context.Context, address string) (o Object, err error) {
	o.URL = RedactAddress(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return o, fmt.Errorf("%s is no web address", o.URL)
	}
	if strings.ContainsAny(u.Path, "*?[{") {
		return o, fmt.Errorf("%s: a web server lists no files: give each address separately, without patterns", o.URL)
	}
	s.mu.Lock()
	s.webAddresses[o.URL] = address
	s.mu.Unlock()
	st := &webServer{s.web, s}
	err = s.retry(ctx, "look up "+o.URL, func() (err error) {
		o, err = st.stat(ctx, o)
		return err
	})
	return o, err
}

// request returns a request for a URL, with the secrets of its address.
func (w *webServer) request(ctx context.Context, name string) (*http.Request, error) {
	w.stores.mu.Lock()
	address, ok := w.stores.webAddresses[name]
	w.stores.mu.Unlock()
	if !ok {
		address = name
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, sourceKey{}, &sourceAddress{}), http.MethodGet,
		address, nil)
	if err != nil {
		return nil, &Error{Kind: Invalid, URL: name, Err: errors.New("it is no web address")}
	}
	r.Header.Set("Accept-Encoding", "identity")
	return r, nil
}

// stat requests the first byte to determine size and version, because some servers, and addresses signed for GET, do
// not support HEAD.
func (w *webServer) stat(ctx context.Context, o Object) (Object, error) {
	r, err := w.request(ctx, o.URL)
	if err != nil {
		return o, err
	}
	r.Header.Set("Range", "bytes=0-0")
	answer, err := w.client.Do(r)
	if err != nil {
		return o, connectionError(ctx, o.URL, err)
	}
	defer answer.Body.Close() // read only
	o.Version = versionOf(answer.Header)
	switch answer.StatusCode {
	case http.StatusPartialContent:
		if _, size, ok := strings.Cut(answer.Header.Get("Content-Range"), "/"); ok {
			if o.Size, err = strconv.ParseInt(size, 10, 64); err == nil && o.Size >= 0 {
				return o, nil
			}
		}
	case http.StatusOK:
		if o.Size = answer.ContentLength; o.Size >= 0 {
			return o, nil
		}
	case http.StatusRequestedRangeNotSatisfiable: // of an empty object
		if answer.Header.Get("Content-Range") == "bytes */0" {
			return o, nil
		}
	default:
		return o, responseError(answer, o.URL, deniedWeb)
	}
	return o, &Error{Kind: Invalid, URL: o.URL, Err: errors.New("the server does not report the object's size"),
		hint: "pipe it: curl -sSfL ADDRESS | loaderd publish -"}
}

// versionOf returns a strong ETag, or the time of the last change.
func versionOf(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

func (w *webServer) list(context.Context, string, func(string, Object) error) error {
	return errors.New("a web server lists nothing")
}

func (w *webServer) get(ctx context.Context, name string, o Object, from, to int64) (body rangeBody, err error) {
	r, err := w.request(ctx, name)
	if err != nil {
		return body, err
	}
	if strings.HasPrefix(o.Version, `"`) {
		r.Header.Set("If-Match", o.Version)
	}
	body, header, err := getRange(w.client, r, o, from, to, deniedWeb)
	if err != nil {
		return body, err
	}
	if now := versionOf(header); o.Version != "" && now != "" && now != o.Version {
		return body, errors.Join(changedError(o, "its version is another one"), body.Close())
	}
	return body, nil
}
