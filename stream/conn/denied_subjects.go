package conn

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DeniedSubjects returns the subjects that this client's user may not publish to, and those that it may not subscribe
// to. It tests this over a separate connection, with messages that have no effect.
func (c *Client) DeniedSubjects(ctx context.Context, publish,
	subscribe []string) (notPublish, notSubscribe []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, AttemptTimeout)
	defer cancel()
	options, err := clientOptions(c.options, newStatus(), &trackingDialer{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var said []string
	closed := make(chan struct{})
	options = append(options, nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, strings.ToLower(err.Error()))
	}), nats.ClosedHandler(func(*nats.Conn) { close(closed) }), func(o *nats.Options) error {
		o.NoCallbacksAfterClientClose = false // all errors have arrived when the last callback runs
		return nil
	})
	nc, err := nats.Connect(c.options.URL, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect once more: %w", err)
	}
	defer nc.Close()
	for _, subject := range publish {
		if err := nc.PublishMsg(probeMessage(subject)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", subject, err)
		}
	}
	for _, subject := range subscribe {
		if _, err := nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", subject, err)
		}
	}
	if err := nc.FlushWithContext(ctx); err != nil { // the server responds in order
		return nil, nil, err
	}
	nc.Close()
	<-closed
	mu.Lock()
	defer mu.Unlock()
	among := func(subjects []string, what string) (refused []string) {
		for _, subject := range subjects {
			line := strings.ToLower(fmt.Sprintf("%s to %q", what, subject))
			if slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, line) }) {
				refused = append(refused, subject)
			}
		}
		return refused
	}
	return among(publish, "publish"), among(subscribe, "subscription"), nil
}

// AccountName returns the name of the account that the client's user belongs to. Some servers do not disclose it.
func (c *Client) AccountName(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAccountTimeout)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, UserInfoSubject, nil)
	if err != nil {
		return "", err
	}
	var answer struct {
		Data struct {
			Account string `json:"account"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return "", fmt.Errorf("read the server's information about this user: %w", err)
	}
	return answer.Data.Account, nil
}

// UserInfoSubject is the subject on which a server returns a client's own user information.
const UserInfoSubject = "$SYS.REQ.USER.INFO"

// probeMessage returns a message that changes nothing, whichever service receives it. A stream refuses it, because it
// expects a stream that does not exist. JetStream's API refuses it for two reasons: it requires an API level far in
// the future, and its data is the start of a JSON object. (Data that is not an object is ignored: a purge would
// then purge everything.)
func probeMessage(subject string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header.Set(jetstream.ExpectedStreamHeader, "loaderd_asks_what_is_permitted")
	m.Header.Set("Nats-Required-Api-Level", "1000000")
	m.Data = []byte("{")
	return m
}
