package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/auth"
	"loaderd/stream/proxy"
)

// The server's accounts. A client of one account cannot name subjects of another. Permissions within one account
// would not be enough: a client names the reply subject of each request, and the server publishes there regardless of
// the client's permissions. A stored document, sent as such a response, would be a request to JetStream.
const (
	accountOwn       = "LOADERD"   // plans, checkpoints, low watermarks, leases, heartbeats and requests between daemons
	accountDocuments = "DOCUMENTS" // documents, dead letters, commits of publishers
	accountProducers = "PRODUCERS" // no JetStream: only single requests of DOCUMENTS, imported one by one
)

// User is the user that a client connects as. The operator's token opens both accounts, and the user name
// selects one.
type User string

// The users.
const (
	Own       User = "own"       // everything in the account of the daemon's own streams
	Documents User = "documents" // everything in the documents' account
	Producer  User = "producer"  // the requests that a producer needs
)

// Tokens are the secrets of the users. Each is in a separate file of the data folder that only its owner may read.
const (
	OperatorFile = "operator.token" // for Own and Documents
	ProducerFile = "producer.token"

	operatorPrefix = "operator_"
	producerPrefix = "producer_"
)

// IsOperatorToken reports whether a token opens both accounts.
func IsOperatorToken(token string) bool { return strings.HasPrefix(token, operatorPrefix) }

// IsProducerToken reports whether a token is for producers.
func IsProducerToken(token string) bool { return strings.HasPrefix(token, producerPrefix) }

// Producers lists the requests to the documents' account that producers may make.
type Producers struct {
	Requests []string       // subjects with at most one response
	Reads    []proxy.Stream // streams whose messages the proxy returns to them
}

// FlightToken is the token of the data folder for calls to the daemon's Flight and HTTP servers from this machine.
// All members of a cluster have the same one.
func (s *Server) FlightToken() auth.StoredToken {
	return auth.FlightToken(s.users.dir, s.users.secret)
}

// MaxProducers bounds the connections with the token of producers.
const MaxProducers = 256

// responseTimeout bounds how long the server keeps the route of the response to a producer's request.
const responseTimeout = 30 * time.Second

// jetStream is the prefix of the subjects of JetStream's API.
const jetStream = "$JS.API."

// users authenticates clients for the server.
type users struct {
	server        *server.Server // set before the server starts
	dir           string
	secret        string // of the cluster's members; empty without a cluster
	processSecret string // of this process, for its own connections
	proxySecret   string // of the proxy, for its connections on behalf of clients
	tokens        atomic.Pointer[tokens]

	mu       sync.Mutex // guards shared
	exported map[string]bool
}

// tokens are the hashes of the tokens as last read.
type tokens struct{ operator, producer [32]byte }

func openUsers(dir, secret string) (*users, error) {
	u := &users{dir: dir, secret: secret, processSecret: auth.RandomSecret(), proxySecret: auth.RandomSecret(),
		exported: map[string]bool{}}
	return u, u.Reload()
}

// PermitRequests permits producers further requests, in addition to the existing ones.
func (s *Server) PermitRequests(p Producers) error {
	if s.proxy != nil {
		s.proxy.RegisterStreams(p.Reads...)
	}
	return s.users.exportRequests(p)
}

// permissions returns the permissions of producers in their account. Requests to JetStream are not listed one by one.
// The server responds to a request that is not imported with "no responders" immediately, and clients fall back. The
// proxy publishes to inboxes; producers do not.
func (u *users) permissions() *server.Permissions {
	u.mu.Lock()
	defer u.mu.Unlock()
	publish := []string{jetStream + ">", "_INBOX.>"}
	for subject := range u.exported {
		if !strings.HasPrefix(subject, jetStream) {
			publish = append(publish, subject)
		}
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}
}

// exportRequests exports requests of the documents' account to the producers' account, which imports them.
func (u *users) exportRequests(p Producers) error {
	documents, err := u.server.LookupAccount(accountDocuments)
	if err != nil {
		return fmt.Errorf("look up account %s: %w", accountDocuments, err)
	}
	producers, err := u.server.LookupAccount(accountProducers)
	if err != nil {
		return fmt.Errorf("look up account %s: %w", accountProducers, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	share := func(subject string) error {
		if u.exported[subject] {
			return nil
		}
		if err := documents.AddServiceExportWithResponse(subject, server.Singleton,
			[]*server.Account{producers}); err != nil {
			return fmt.Errorf("export %s: %w", subject, err)
		}
		if err := documents.SetServiceExportResponseThreshold(subject, responseTimeout); err != nil {
			return fmt.Errorf("limit answers of %s: %w", subject, err)
		}
		if err := producers.AddServiceImport(documents, subject, subject); err != nil {
			return fmt.Errorf("import %s: %w", subject, err)
		}
		u.exported[subject] = true
		return nil
	}
	for _, subject := range p.Requests {
		err = errors.Join(err, share(subject))
	}
	return err
}

// Files implements auth.Reloader.
func (u *users) Files() []string {
	return []string{filepath.Join(u.dir, OperatorFile), filepath.Join(u.dir, ProducerFile)}
}

// Expires implements auth.Reloader. Tokens do not expire.
func (u *users) Expires() time.Time { return time.Time{} }

// Reload reads the tokens of the data folder and creates missing ones: at random, or, in a cluster, derived from the
// members' secret, so that all members have the same tokens.
func (u *users) Reload() error {
	var now tokens
	for _, t := range []struct {
		file, prefix string
		hash         *[32]byte
	}{{OperatorFile, operatorPrefix, &now.operator}, {ProducerFile, producerPrefix, &now.producer}} {
		token, err := auth.StoredToken{File: filepath.Join(u.dir, t.file), Prefix: t.prefix, Secret: u.secret}.Read()
		if err != nil {
			return err
		}
		*t.hash = sha256.Sum256([]byte(token))
	}
	u.tokens.Store(&now)
	return nil
}

// Check implements server.Authentication. It compares tokens by their hashes, so that its duration reveals
// nothing about them.
func (u *users) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	has := tokenVerifier(o, c.GetNonce())
	proxied := subtle.ConstantTimeCompare([]byte(o.ProxySig), []byte(u.proxySecret)) == 1
	known, user := u.tokens.Load(), User(o.Username)
	switch {
	case has(sha256.Sum256([]byte(u.processSecret))), proxied && has(known.operator):
		account := accountDocuments
		if user == Own {
			account = accountOwn
		}
		return u.registerUser(c, user, account, nil)
	case proxied && has(known.producer):
		return u.registerUser(c, user, accountProducers, u.permissions())
	}
	return false
}

// identify returns the role of a client of the proxy.
func (u *users) identify(o *server.ClientOpts, nonce []byte) proxy.Role {
	has, known := tokenVerifier(o, nonce), u.tokens.Load()
	switch {
	case has(known.operator):
		return proxy.Operator
	case has(known.producer):
		return proxy.Producer
	}
	return proxy.Unknown
}

// tokenVerifier returns a function that reports whether a client has the token of a hash. The client signs the nonce
// with the token, or sends the token, as any NATS client can.
func tokenVerifier(o *server.ClientOpts, nonce []byte) (has func(hash [32]byte) bool) {
	if o.Sig != "" {
		return func(hash [32]byte) bool { return auth.VerifyNonce(o.Sig, hash, nonce) }
	}
	sent := sha256.Sum256([]byte(cmp.Or(o.Password, o.Token)))
	return func(hash [32]byte) bool { return hash == sent }
}

func (u *users) registerUser(c server.ClientAuthentication, user User, account string, may *server.Permissions) bool {
	a, err := u.server.LookupAccount(account)
	if err != nil {
		return false
	}
	c.RegisterUser(&server.User{Username: string(user), Account: a, Permissions: may})
	return true
}

// addAccounts adds the server's accounts to its options.
func addAccounts(o *server.Options) error {
	return o.ProcessConfigString(fmt.Sprintf(
		"accounts { %s: {jetstream: enabled}, %s: {jetstream: enabled}, %s: {limits: {max_connections: %d}} }",
		accountOwn, accountDocuments, accountProducers, MaxProducers))
}

// ProcessLogin returns the user name and password for a connection of this process.
func (s *Server) ProcessLogin(user User) (name, password string) {
	return string(user), s.users.processSecret
}

// FindToken returns the token of a server inside a daemon on this machine, from the daemon's data folder: the
// operator's token if operator is set, else the producers'. It is empty if the address is not the one that the daemon
// has announced, or if this process may not read the tokens.
func FindToken(dir, address string, operator bool) string {
	if !isSameServer(HolderURL(dir), address) {
		return ""
	}
	name := ProducerFile
	if operator {
		name = OperatorFile
	}
	token, err := auth.ReadToken(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return token
}

// isSameServer reports whether an address has the host and port that a server has announced. The same port of another
// loopback address may belong to another process, which would forward the server's nonce to be signed.
func isSameServer(announced, address string) bool {
	a, err := url.Parse(announced)
	b, otherErr := url.Parse(address)
	return err == nil && otherErr == nil && a.Host != "" && a.Hostname() == b.Hostname() &&
		a.Port() == cmp.Or(b.Port(), strconv.Itoa(server.DEFAULT_PORT))
}
