// Package objects reads objects of stores (S3, Google Cloud Storage, Azure Blob Storage, web servers, data sets of the
// Hugging Face hub): lists those of a pattern in order, and reads each from any offset, through cut connections and
// servers that are down. What is read of an object is one version of it: the rest of a changed object is never put
// behind its beginning.
package objects

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Object is an object as a listing has it.
type Object struct {
	// URL names the object, without secrets: of a web address with a query that is left out but for a hash.
	URL string `json:"url"`
	// Size in bytes, as it is stored.
	Size int64 `json:"size"`
	// Version changes when the content does: an ETag, a generation, a commit. Empty where the store tells none.
	Version string `json:"version,omitempty"`
}

// Options of Stores. The zero value is right for a command.
type Options struct {
	// Patience is for how long a store that does not answer is asked again while not one byte comes; 0 is two minutes.
	Patience time.Duration
	// OnTrouble is told why a store is asked again, and with "" that it answers. It must not block.
	OnTrouble func(problem string)
	Log       *slog.Logger
}

// Stores are all stores that this process may read. Connections and credentials are made when they are needed first.
type Stores struct {
	options Options
	client  *http.Client
	web     *http.Client // for servers that need not be trusted
	aws     awsAccess

	mu      sync.Mutex
	opened  map[string]store
	secrets map[string]string // whole addresses of web objects by their URLs
}

// store is one store, or one bucket of it. Errors are *Error where their cause is known.
type store interface {
	// list yields the objects whose names begin with prefix, with their names within the store. prefix may name one.
	list(ctx context.Context, prefix string, yield func(name string, o Object) error) error
	// get reads an object from an offset on. It may yield more than there is to the object's size when that has changed.
	get(ctx context.Context, name string, o Object, from, to int64) (io.ReadCloser, error)
}

// New makes stores.
func New(o Options) *Stores {
	if o.Patience <= 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = idleConnections
	transport.ResponseHeaderTimeout = headerPatience
	transport.DisableCompression = true // an object's bytes are what is stored
	client := &http.Client{Transport: transport}
	return &Stores{options: o, client: client, web: webClient(transport, isPrivate), opened: map[string]store{},
		secrets: map[string]string{}}
}

const (
	// headerPatience is how long an answer may take to begin.
	headerPatience = time.Minute
	// idleConnections are those that are kept open for each host.
	idleConnections = 16
)

// Schemes are those of addresses that are read.
var Schemes = []string{"s3", "gs", "az", "https", "http", "hf"}

// Remote says whether a path is the address of something in a store.
func Remote(path string) bool {
	scheme, _, found := strings.Cut(path, "://")
	if !found {
		return false
	}
	return slices.Contains(Schemes, scheme)
}

// address is a pattern, or an object's URL, in its parts.
type address struct {
	scheme, bucket, name string
}

func (a address) url(name string) string { return a.scheme + "://" + a.bucket + "/" + name }

// parse reads an address. Nothing of it that may be secret is in an error.
func parse(pattern string) (address, error) {
	scheme, rest, _ := strings.Cut(pattern, "://")
	a := address{scheme: scheme}
	switch scheme {
	case "s3", "gs", "az":
		a.bucket, a.name, _ = strings.Cut(rest, "/")
		if a.bucket == "" || strings.ContainsAny(a.bucket, "*?[{") {
			return a, fmt.Errorf("%s: want %s://BUCKET/PATH, with * and ** in the path alone", pattern, scheme)
		}
		if scheme == "s3" {
			if err := checkS3(a); err != nil {
				return a, fmt.Errorf("%s: %w", pattern, err)
			}
		}
	case "hf":
		var err error
		if a.bucket, a.name, err = parseHub(rest); err != nil {
			return a, fmt.Errorf("%s: %w", pattern, err)
		}
	case "http", "https":
		return a, nil
	default:
		return a, fmt.Errorf("addresses of this kind are not read: want one of %s", strings.Join(Schemes, "://, ")+"://")
	}
	return a, nil
}

// store opens the store of an address, once.
func (s *Stores) store(ctx context.Context, a address) (store, error) {
	key := a.scheme + "://" + a.bucket
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.opened[key]; st != nil {
		return st, nil
	}
	var st store
	var err error
	switch a.scheme {
	case "s3":
		st = &s3Bucket{access: &s.aws, bucket: a.bucket}
	case "gs":
		st, err = openGS(ctx, s.client, a.bucket)
	case "az":
		st, err = openAzure(s.client, a.bucket)
	case "hf":
		st, err = openHub(s.client, a.bucket)
	default:
		st = &web{s.web, s}
	}
	if err != nil {
		return nil, &Error{Kind: Unusable, URL: key, Err: err}
	}
	s.opened[key] = st
	return st, nil
}

// of finds the store of an object, and its name there.
func (s *Stores) of(ctx context.Context, o Object) (store, string, error) {
	a, err := parse(o.URL)
	if err != nil {
		return nil, "", err
	}
	st, err := s.store(ctx, a)
	if a.bucket == "" {
		return st, o.URL, err
	}
	return st, a.name, err
}
