package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"

	"github.com/nats-io/nuid"

	"loaderd/internal/access"
	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// Store is a connection to JetStream and, when it is embedded, the server behind it. It is safe for use by many
// goroutines.
//
// It is of the account of the documents. The daemon's own streams may be in an account of their own: Own is the store
// of that one.
type Store struct {
	*conn.Client
	config Config
	log    *slog.Logger
	server *server.Server // nil with a remote one
	// diskFree returns the free space of the embedded server's disk, in bytes; nil with a remote server.
	diskFree func() (int64, error)
	account  *accountStorage
	lowered  *sync.Map // names of the streams whose lowered bounds the log has; shared by all stores of the connection
	own      *Store    // nil where both accounts are one
	made     made
	few      fewServers
	keys     [][]byte // of plans
}

// Open starts the embedded server or connects to the remote ones. It waits and retries where waiting can help (no
// server reachable), until ctx ends; everything else fails at once.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	return open(ctx, cfg, true, false, log)
}

// OpenProducer is Open for who only publishes documents: it has no more permissions than that takes, and no Own.
func OpenProducer(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	return open(ctx, cfg, true, true, log)
}

// OpenAlone opens the data folder of an embedded server for this process alone: nobody else can connect, so that the
// server takes no port.
func OpenAlone(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	if !cfg.Embedded() {
		return nil, fmt.Errorf("open data folder %s: stream.url names servers elsewhere", cfg.Dir)
	}
	return open(ctx, cfg, false, false, log)
}

func open(ctx context.Context, cfg Config, listens, producer bool, log *slog.Logger) (_ *Store, err error) {
	var bad []error
	for _, e := range cfg.Validate() {
		bad = append(bad, fmt.Errorf("stream.%w", e))
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	s := &Store{config: cfg, log: log, account: &accountStorage{}, lowered: &sync.Map{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if cfg.PlanKeyFile != "" && !producer { // who publishes needs no plan
		if s.keys, err = access.ReadKeys(cfg.PlanKeyFile); err != nil {
			return nil, err
		}
	}
	who, err := s.identify(ctx, listens, producer)
	if err != nil {
		return nil, err
	}
	if s.Client, err = conn.Dial(ctx, who.documents, log); err != nil {
		return nil, err
	}
	if who.own == nil {
		return s, nil
	}
	s.own = &Store{config: cfg, log: log, server: s.server, diskFree: s.diskFree, account: &accountStorage{},
		lowered: s.lowered, keys: s.keys}
	if s.own.Client, err = conn.Dial(ctx, *who.own, log); err != nil {
		return nil, err
	}
	return s, nil
}

// identity is as whom a Store connects: to the account of the documents and, where the daemon's own streams are
// elsewhere, to theirs.
type identity struct {
	documents conn.Options
	own       *conn.Options
}

// identify starts the embedded server, or finds out as whom to connect to others.
func (s *Store) identify(ctx context.Context, listens, producer bool) (who identity, err error) {
	c := s.config
	o := conn.Options{URL: c.URL, Credentials: c.Credentials, NKey: c.NKey, TLS: c.TLS, ReconnectWait: c.ReconnectWait}
	if c.Embedded() {
		s.server, err = server.Start(ctx, server.Options{Dir: c.Dir, Listen: c.Listen, MaxPayload: c.MaxDocument + HeaderRoom,
			Private: !listens,
			Cluster: c.Cluster, Producers: c.producers(), Cert: c.TLS.Cert, Key: c.TLS.Key, CA: c.TLS.CA}, s.log)
		if err != nil {
			return who, err
		}
		o.Server, s.diskFree = s.server, s.server.DiskFree
		return both(o, s.server.Inside), nil
	}
	if c.Own != (Login{}) && !producer {
		own := o
		own.Credentials, own.NKey = c.Own.Credentials, c.Own.NKey
		o.Inbox = "_LOADERD." + nuid.Next() // producers in the account of the documents may hear the usual inboxes
		return identity{o, &own}, nil
	}
	token, err := c.token(!producer)
	switch {
	case err != nil:
		return who, err
	case server.OperatorToken(token) && !producer:
		o.URL = withoutUsers(o.URL)
		return both(o, func(u server.User) (string, string) { return string(u), token }), nil
	case server.OperatorToken(token):
		o.URL = withoutUsers(o.URL)
		o.Login = as(string(server.Documents), token)
	case server.ProducerToken(token) && !producer:
		return who, errors.New("connect to NATS: the token is one of producers, who see no runs: the server inside a " +
			"daemon wants operator.token of its data folder (stream.token_file)")
	case server.ProducerToken(token):
		o.URL = withoutUsers(o.URL)
		o.Login = as(string(server.Producer), token)
	case token != "":
		o.Token = token
	case producer && c.anonymous():
		o.Login = c.findLogin
	}
	return identity{documents: o}, nil
}

// withoutUsers are URLs without what they say of who connects.
func withoutUsers(urls string) string {
	all := strings.Split(urls, ",")
	for i, raw := range all {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil {
			u.User = nil
			all[i] = u.String()
		}
	}
	return strings.Join(all, ",")
}

func as(user, password string) func() (string, string) {
	return func() (string, string) { return user, password }
}

// both are the connections to a server inside a daemon, this process or another one.
func both(o conn.Options, login func(server.User) (name, password string)) identity {
	own := o
	own.Login = as(login(server.Own))
	o.Login = as(login(server.Documents))
	return identity{o, &own}
}

// anonymous says whether nothing is configured of who connects.
func (c Config) anonymous() bool {
	return c.Credentials == "" && c.NKey == "" && c.TokenFile == "" && c.Dir != "" && !strings.Contains(c.URL, "@")
}

// findLogin is how a producer is known to a daemon on this machine, which may start later, or with another token.
func (c Config) findLogin() (user, password string) {
	token, _ := c.token(false) // without one the server says that it wants it
	if token == "" {
		return "", ""
	}
	return string(server.Producer), token
}

// token is that of the configuration, else that of a server inside a daemon on this machine; empty where there is none.
func (c Config) token(operator bool) (string, error) {
	if c.TokenFile != "" {
		token, err := access.ReadToken(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("%w (stream.token_file)", err)
		}
		return token, nil
	}
	for raw := range strings.SplitSeq(c.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil {
			if token, _ := u.User.Password(); server.OperatorToken(token) || server.ProducerToken(token) {
				return token, nil
			}
		}
	}
	if !c.anonymous() {
		return "", nil
	}
	for u := range strings.SplitSeq(c.URL, ",") {
		if token := server.TokenFor(c.Dir, strings.TrimSpace(u), operator); token != "" {
			return token, nil
		}
	}
	return "", nil
}

// Reloaders are certificates and tokens of the embedded server, by what they are for, to be read again when they
// change.
func (s *Store) Reloaders() map[string]access.Reloader {
	if s.server == nil {
		return nil
	}
	return s.server.Reloaders()
}

// FlightToken is the token of the data folder for calls to the daemon's Flight and HTTP servers from this machine. With
// servers elsewhere the folder holds nothing but that token.
func (s *Store) FlightToken() access.KeptToken {
	if s.server == nil {
		return access.FlightToken(s.config.Dir, "")
	}
	return s.server.FlightToken()
}

// Own is the store of the daemon's own streams: what runs have decided, what they need, who leads them. Without an
// account of their own they are where the documents are.
func (s *Store) Own() *Store {
	if s.own != nil {
		return s.own
	}
	return s
}

// Of is the store of a stream, by its name.
func (s *Store) Of(stream string) *Store {
	if stream == s.config.Name || stream == s.config.DeadLetterName() {
		return s
	}
	return s.Own()
}

// Status says whether streams can be read and written, in both accounts.
func (s *Store) Status() conn.Status {
	st := s.Client.Status()
	if s.own == nil {
		return st
	}
	own := s.own.Client.Status() // which looks as well: what fails there has this for its cause
	if st.Connected {
		return own
	}
	return st
}

// Config returns the configuration that the Store was opened with.
func (s *Store) Config() Config { return s.config }

// PlanKeys are the keys by which the records of plans are authenticated, the first for those that are written; none
// without plan_key_file.
func (s *Store) PlanKeys() [][]byte { return s.keys }

// Reading notes that readers wait for documents, until done is called. Producers of an embedded server yield to them.
func (s *Store) Reading() (done func()) {
	if s.server == nil {
		return func() {}
	}
	return s.server.Reading()
}

// Close ends the connection and stops the embedded server, within bounded time. What was acknowledged is on disk
// already.
func (s *Store) Close() error {
	if s.own != nil && s.own.Client != nil {
		s.own.Client.Close()
	}
	if s.Client != nil {
		s.Client.Close()
	}
	if s.server != nil {
		return s.server.Stop()
	}
	return nil
}
