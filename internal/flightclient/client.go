// Package flightclient is a small Flight client for the steps that a daemon serves. It does in Go what one rank of a
// training job does.
package flightclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/internal/api"
	"loaderd/internal/auth"
)

// Flow-control windows of a connection.
const (
	// RankWindow is the window of a rank: a few steps. A window update grants a quarter of it at once. The daemon
	// assembles that much at once, while other ranks wait.
	RankWindow = 1 << 20
	// BulkWindow is the window of a client that reads as fast as possible. A larger window does not increase throughput.
	BulkWindow = 16 << 20
)

// Options are the options of a connection.
type Options struct {
	Token string // bearer token; empty sends none
	// DataDir is the data folder of a daemon on this machine. Without a Token, calls to loopback are signed with the
	// token in this folder.
	DataDir string
	TLS     *tls.Config // for grpc+tls; nil: the system's certificate authorities
	// Window is the number of bytes that the server may send ahead of the reader; 0: RankWindow.
	Window int32
	// Reuse reuses the memory of a batch for later ones. A batch is then valid only until the function that receives it
	// returns.
	Reuse bool
	// Report reports the consumption of Read's callers. A step is taken when f is called with its first part, and
	// consumed when f returns from its last part.
	Report bool
}

// Client is a connection to a daemon's Flight server. It is safe for concurrent use.
type Client struct {
	uri                string
	token              string
	local              *auth.LocalSigner // nil if calls are not signed
	reuse              bool
	reportsConsumption bool
	flight             flight.Client

	reportMu    sync.RWMutex // read-locked by running reports
	lifetime    context.Context
	endLifetime context.CancelFunc // cancels open
}

// Open returns a client for grpc://HOST:PORT or grpc+tls://HOST:PORT. It does not wait for the server.
func Open(uri string, o Options) (*Client, error) {
	scheme, address, _ := strings.Cut(uri, "://")
	var security credentials.TransportCredentials
	switch scheme {
	case "grpc", "grpc+tcp":
		security = insecure.NewCredentials()
	case "grpc+tls":
		security = credentials.NewTLS(o.TLS)
	default:
		return nil, fmt.Errorf("connect to %q: want grpc://HOST:PORT or grpc+tls://HOST:PORT", uri)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("connect to %q: %w", uri, err)
	}
	var local *auth.LocalSigner
	if o.Token == "" {
		local = auth.NewLocalSigner(o.DataDir, address)
	}
	if local != nil && scheme != "grpc+tls" { // without TLS no certificate identifies the server
		address = auth.LoopbackIP(address)
	}
	c, err := flight.NewClientWithMiddleware(address, nil, nil, grpc.WithTransportCredentials(security),
		grpc.WithInitialWindowSize(cmp.Or(o.Window, RankWindow)),
		grpc.WithInitialConnWindowSize(cmp.Or(o.Window, RankWindow)))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", uri, err)
	}
	open, shut := context.WithCancel(context.Background())
	return &Client{lifetime: open, endLifetime: shut, uri: uri, token: o.Token, local: local, reuse: o.Reuse,
		reportsConsumption: o.Report,
		flight:             c}, nil
}

// Close closes the connection and ends all reads on it.
func (c *Client) Close() error {
	c.endLifetime()
	c.reportMu.Lock() // wait for running reports
	defer c.reportMu.Unlock()
	return c.flight.Close()
}

// Read calls f with every record batch of a ticket, in order. It returns nil after the last one, and f's error
// immediately. For other errors Reason returns the daemon's reason.
func (c *Client) Read(ctx context.Context, t api.Ticket, f func(Batch) error) error {
	if c.reportsConsumption {
		t.Session, t.Taken = newSession(), t.Step
		x, stop := c.startReporting(ctx, t)
		defer stop()
		inner := f
		f = func(b Batch) error {
			x.markTaken(b.Meta.Step)
			err := inner(b)
			if b.Meta.Part == b.Meta.Parts-1 && err == nil {
				x.markConsumed()
			}
			return err
		}
	}
	return c.ReadRecords(ctx, t, func(r arrow.Record, metadata []byte) error {
		b, err := decodeBatch(r, metadata)
		if err != nil {
			return fmt.Errorf("decode batch of rank %d: %w", t.Rank, err)
		}
		return f(b)
	})
}

// ReadRecords is Read for undecoded record batches and their app_metadata. A record is valid until f returns.
func (c *Client) ReadRecords(ctx context.Context, t api.Ticket, f func(r arrow.Record, metadata []byte) error) error {
	ticket, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode ticket: %w", err)
	}
	ctx, cancel := context.WithCancel(c.withAuthorization(ctx))
	defer cancel() // ends the stream if f returned an error
	stream, err := c.flight.DoGet(ctx, &flight.Ticket{Ticket: ticket}, grpc.ForceCodecV2(newCodec()))
	if err != nil {
		return c.wrapError("read", err)
	}
	var options []ipc.Option
	if c.reuse {
		options = append(options, ipc.WithAllocator(&reusingAllocator{Allocator: memory.NewGoAllocator()}))
	}
	records, err := flight.NewRecordReader(&messageReader{stream: stream}, options...)
	if err != nil {
		return c.wrapError("read", err)
	}
	defer records.Release()
	for records.Next() {
		if err := f(records.Record(), records.LatestAppMetadata()); err != nil {
			return err
		}
	}
	if err := records.Err(); err != nil && !errors.Is(err, io.EOF) {
		return c.wrapError("read", err)
	}
	return nil
}

// Do requests an action with one result, such as seal or stats. body and result are JSON; nil for none.
func (c *Client) Do(ctx context.Context, action string, body, result any) error {
	return c.DoEach(ctx, action, body, func(b []byte) error {
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(b, result); err != nil {
			return fmt.Errorf("decode result of %s: %w", action, err)
		}
		return nil
	})
}

// DoEach requests an action and calls f with every result, in order, until f returns an error.
func (c *Client) DoEach(ctx context.Context, action string, body any, f func([]byte) error) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode %s: %w", action, err)
		}
		if len(b) > api.MaxActionBytes {
			return fmt.Errorf("action %s: its body has %d bytes, at most %d are possible", action, len(b), api.MaxActionBytes)
		}
	}
	ctx, cancel := context.WithCancel(c.withAuthorization(ctx))
	defer cancel()
	results, err := c.flight.DoAction(ctx, &flight.Action{Type: action, Body: b})
	if err != nil {
		return c.wrapError(action, err)
	}
	for {
		r, err := results.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.wrapError(action, err)
		}
		if err := f(r.GetBody()); err != nil {
			return err
		}
	}
}

func (c *Client) withAuthorization(ctx context.Context) context.Context {
	header := "Bearer " + c.token
	if c.token == "" {
		var err error
		if header, err = c.local.Authorization(); err != nil { // a daemon that requires authentication rejects the call
			return ctx
		}
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", header)
}

func (c *Client) wrapError(what string, err error) error {
	return fmt.Errorf("%s from %s: %w", what, c.uri, err)
}

// Reason returns the reason in a daemon's error, such as SOURCE_DRY, empty for none.
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
