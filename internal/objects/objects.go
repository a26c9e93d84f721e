// Package objects reads objects of stores: S3, Google Cloud Storage, Azure Blob Storage, web servers, and data sets
// of the Hugging Face hub. It lists the objects of a pattern in order, and reads each from any offset. It retries
// after cut connections and while servers are down. A read returns one version of an object: parts of a changed
// object are never combined with parts of its previous version.
package objects

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Object is an object in a listing.
type Object struct {
	// URL names the object, without secrets. The query of a web address is replaced by its hash.
	URL string `json:"url"`
	// Size is the size of the stored object in bytes.
	Size int64 `json:"size"`
	// Version changes with the content: an ETag, a generation, a commit. It is empty if the store provides none.
	Version string `json:"version,omitempty"`
}

// Options configure Stores. The zero value is suitable for a command.
type Options struct {
	// RetryTimeout is how long requests to an unresponsive store are retried while no byte arrives; 0 means two minutes.
	RetryTimeout time.Duration
	// OnRetry is called with the reason of each retry, and with "" when the store responds again. It must not block.
	OnRetry func(problem string)
	Log     *slog.Logger
}

// Stores are all stores that this process may read. Connections and credentials are created on first use.
type Stores struct {
	options Options
	client  *http.Client
	web     *http.Client // for untrusted servers
	aws     awsAccess

	mu           sync.Mutex
	openStores   map[string]store
	webAddresses map[string]string // complete addresses of web objects, by their URLs
}

// store is one store, or one bucket of it. Errors are *Error if their cause is known.
type store interface {
	// list yields the objects whose names start with prefix, with their names within the store. prefix may be the name
	// of an object.
	list(ctx context.Context, prefix string, yield func(name string, o Object) error) error
	// get requests the bytes [from, to) of an object. The response may have fewer or more bytes.
	get(ctx context.Context, name string, o Object, from, to int64) (rangeBody, error)
}

// New returns stores with the given options.
func New(o Options) *Stores {
	if o.RetryTimeout <= 0 {
		o.RetryTimeout = 2 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxIdleConnections
	transport.ResponseHeaderTimeout = headerTimeout
	transport.DisableCompression = true // return an object's bytes as stored
	client := &http.Client{Transport: transport}
	return &Stores{options: o, client: client, web: webClient(transport, isPrivate), openStores: map[string]store{},
		webAddresses: map[string]string{}}
}

const (
	// headerTimeout is the time limit for the response headers.
	headerTimeout = time.Minute
	// maxIdleConnections is the number of idle connections that are kept per host.
	maxIdleConnections = 16
)

// Schemes are the supported schemes of addresses.
var Schemes = []string{"s3", "gs", "az", "https", "http", "hf"}

// IsRemote reports whether a path is an address in a store.
func IsRemote(path string) bool {
	scheme, _, found := strings.Cut(path, "://")
	if !found {
		return false
	}
	return slices.Contains(Schemes, scheme)
}

// address is a parsed pattern or URL of an object.
type address struct {
	scheme, bucket, name string
}

func (a address) url(name string) string { return a.scheme + "://" + a.bucket + "/" + name }

// parse parses an address. Its errors contain no part of the address that may be secret.
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
	if st := s.openStores[key]; st != nil {
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
		st = &webServer{s.web, s}
	}
	if err != nil {
		return nil, &Error{Kind: Invalid, URL: key, Err: err}
	}
	s.openStores[key] = st
	return st, nil
}

// storeOf returns the store of an object, and the object's name in it.
func (s *Stores) storeOf(ctx context.Context, o Object) (store, string, error) {
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
