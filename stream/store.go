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

	"loaderd/internal/auth"
	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// Store is a connection to JetStream and, if embedded, the server behind it. It is safe for use by many goroutines.
//
// It uses the account of the documents. The daemon's own streams may be in a separate account, whose store is Own.
type Store struct {
	*conn.Client
	config Config
	log    *slog.Logger
	server *server.Server // nil for a remote server
	// diskFree returns the free space of the embedded server's disk, in bytes; nil for a remote server.
	diskFree func() (int64, error)
	account  *accountStorage
	// names of the streams whose lowered bounds were logged; shared by all stores of the connection
	loweredBounds  *sync.Map
	own            *Store // nil if both accounts are the same
	createdStreams createdStreams
	fewServers     fewServers
	keys           [][]byte // of plans
}

// Open starts the embedded server or connects to the remote ones. It retries errors that can pass (no server
// reachable) until ctx ends, and returns every other error immediately.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	return open(ctx, cfg, true, false, log)
}

// OpenProducer is Open for a process that only publishes documents. It uses only the permissions for that, and
// has no Own.
func OpenProducer(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	return open(ctx, cfg, true, true, log)
}

// OpenExclusive opens the data folder of an embedded server exclusively for this process. The server does not
// listen on a port.
func OpenExclusive(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
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
	s := &Store{config: cfg, log: log, account: &accountStorage{}, loweredBounds: &sync.Map{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if cfg.PlanKeyFile != "" && !producer { // publishing does not need a plan
		if s.keys, err = auth.ReadKeys(cfg.PlanKeyFile); err != nil {
			return nil, err
		}
	}
	who, err := s.determineAccounts(ctx, listens, producer)
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
		loweredBounds: s.loweredBounds, keys: s.keys}
	if s.own.Client, err = conn.Dial(ctx, *who.own, log); err != nil {
		return nil, err
	}
	return s, nil
}

// accountOptions holds the options for the account of the documents and, if the daemon's own streams are in another
// account, for that account.
type accountOptions struct {
	documents conn.Options
	own       *conn.Options
}

// determineAccounts starts the embedded server, or determines the credentials for remote servers.
func (s *Store) determineAccounts(ctx context.Context, listens, producer bool) (who accountOptions, err error) {
	c := s.config
	o := conn.Options{URL: c.URL, Credentials: c.Credentials, NKey: c.NKey, TLS: c.TLS, ReconnectWait: c.ReconnectWait}
	if c.Embedded() {
		s.server, err = server.Start(ctx, server.Options{Dir: c.Dir, Listen: c.Listen, MaxPayload: c.MaxDocument + HeaderRoom,
			Private: !listens,
			Cluster: c.Cluster, Producers: c.producerRequests(), Cert: c.TLS.Cert, Key: c.TLS.Key, CA: c.TLS.CA}, s.log)
		if err != nil {
			return who, err
		}
		o.Server, s.diskFree = s.server, s.server.DiskFree
		return bothAccounts(o, s.server.ProcessLogin), nil
	}
	if c.SystemAccount != (Login{}) && !producer {
		own := o
		own.Credentials, own.NKey = c.SystemAccount.Credentials, c.SystemAccount.NKey
		o.Inbox = "_LOADERD." + nuid.Next() // producers in the documents' account may subscribe to the default inboxes
		return accountOptions{o, &own}, nil
	}
	token, err := c.token(!producer)
	switch {
	case err != nil:
		return who, err
	case server.IsOperatorToken(token) && !producer:
		o.URL = withoutUsers(o.URL)
		return bothAccounts(o, func(u server.User) (string, string) { return string(u), token }), nil
	case server.IsOperatorToken(token):
		o.URL = withoutUsers(o.URL)
		o.Login = staticLogin(string(server.Documents), token)
	case server.IsProducerToken(token) && !producer:
		return who, errors.New("connect to NATS: the token is one of producers, who see no runs: the server inside a " +
			"daemon wants operator.token of its data folder (stream.token_file)")
	case server.IsProducerToken(token):
		o.URL = withoutUsers(o.URL)
		o.Login = staticLogin(string(server.Producer), token)
	case token != "":
		o.Token = token
	case producer && c.hasNoCredentials():
		o.Login = c.findLogin
	}
	return accountOptions{documents: o}, nil
}

// withoutUsers returns URLs without user information.
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

func staticLogin(user, password string) func() (string, string) {
	return func() (string, string) { return user, password }
}

// bothAccounts returns the options for both accounts of a server inside a daemon, in this process or another one.
func bothAccounts(o conn.Options, login func(server.User) (name, password string)) accountOptions {
	own := o
	own.Login = staticLogin(login(server.Own))
	o.Login = staticLogin(login(server.Documents))
	return accountOptions{o, &own}
}

// hasNoCredentials reports whether no credentials are configured.
func (c Config) hasNoCredentials() bool {
	return c.Credentials == "" && c.NKey == "" && c.TokenFile == "" && c.Dir != "" && !strings.Contains(c.URL, "@")
}

// findLogin returns a producer's login at a daemon on this machine, which may start later, or with another token.
func (c Config) findLogin() (user, password string) {
	token, _ := c.token(false) // without one, the server's error states that it requires it
	if token == "" {
		return "", ""
	}
	return string(server.Producer), token
}

// token returns the configured token, else that of a server inside a daemon on this machine; empty if none exists.
func (c Config) token(operator bool) (string, error) {
	if c.TokenFile != "" {
		token, err := auth.ReadToken(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("%w (stream.token_file)", err)
		}
		return token, nil
	}
	for raw := range strings.SplitSeq(c.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil {
			if token, _ := u.User.Password(); server.IsOperatorToken(token) || server.IsProducerToken(token) {
				return token, nil
			}
		}
	}
	if !c.hasNoCredentials() {
		return "", nil
	}
	for u := range strings.SplitSeq(c.URL, ",") {
		if token := server.FindToken(c.Dir, strings.TrimSpace(u), operator); token != "" {
			return token, nil
		}
	}
	return "", nil
}

// Reloaders returns the certificates and tokens of the embedded server that have to be reloaded when their files
// change, by purpose.
func (s *Store) Reloaders() map[string]auth.Reloader {
	if s.server == nil {
		return nil
	}
	return s.server.Reloaders()
}

// FlightToken is the token of the data folder for calls to the daemon's Flight and HTTP servers from this machine.
// With remote servers the folder holds only that token.
func (s *Store) FlightToken() auth.StoredToken {
	if s.server == nil {
		return auth.FlightToken(s.config.Dir, "")
	}
	return s.server.FlightToken()
}

// Own returns the store of the daemon's own streams: plans, low watermarks and leases of runs. Without a separate
// account they are in the account of the documents.
func (s *Store) Own() *Store {
	if s.own != nil {
		return s.own
	}
	return s
}

// ForStream returns the store of a stream, by the stream's name.
func (s *Store) ForStream(stream string) *Store {
	if stream == s.config.Name || stream == s.config.DeadLetterName() {
		return s
	}
	return s.Own()
}

// Status reports whether streams can be read and written, in both accounts.
func (s *Store) Status() conn.Status {
	st := s.Client.Status()
	if s.own == nil {
		return st
	}
	own := s.own.Client.Status() // this checks the embedded server too; its failure is also the cause of failures there
	if st.Connected {
		return own
	}
	return st
}

// Config returns the configuration that the Store was opened with.
func (s *Store) Config() Config { return s.config }

// PlanKeys are the keys that authenticate the records of plans; the first one signs new records. Empty without
// plan_key_file.
func (s *Store) PlanKeys() [][]byte { return s.keys }

// BeginRead records that readers wait for documents, until done is called. The embedded server's proxy then
// delays producers.
func (s *Store) BeginRead() (done func()) {
	if s.server == nil {
		return func() {}
	}
	return s.server.BeginRead()
}

// Close closes the connection and stops the embedded server, within bounded time. Acknowledged data is already
// on disk.
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
