package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// minToken is the minimum length of a token that an operator chooses, because shorter ones can be guessed.
const minToken = 16

// Config configures how callers are authenticated.
type Config struct {
	// TokenFile holds one bearer token, which permits everything.
	TokenFile string
	// Identities is a file of identities.
	Identities string
	// Own is the token of the daemon's data folder, which permits everything; nil for none.
	Own *StoredToken
	// Certificates reports that every caller has a verified certificate. Without identities all of them may do
	// everything.
	Certificates bool
}

// Authenticator authenticates callers. It is safe for concurrent use.
type Authenticator struct {
	config        Config
	identities    atomic.Pointer[identityIndex]
	sessionSecret string // of this process, for the tokens of pages
	// flightEndpoint and page are the addresses of the servers that signatures of the own token are for.
	flightEndpoint, pageEndpoint atomic.Pointer[endpoint]

	mu        sync.Mutex
	usedCodes map[time.Time]bool // codes of pages, by creation time
}

// identityIndex are the identities of one read of the files.
type identityIndex struct {
	tokens, certificates map[string]Identity // by the token's hash; by name
	ownHash              *[32]byte           // hash of the own token
	nextExpiry           time.Time           // when the next one expires; zero means never
}

// Open reads the files of a configuration.
func Open(c Config) (*Authenticator, error) {
	g := &Authenticator{config: c, sessionSecret: RandomSecret(), usedCodes: map[time.Time]bool{}}
	return g, g.Reload()
}

// SetFlightAddress and SetPageAddress record the addresses of the daemon's servers, from now on.
func (g *Authenticator) SetFlightAddress(address string) {
	g.flightEndpoint.Store(&endpoint{address, time.Now()})
}

// SetPageAddress sets the address of the web page.
func (g *Authenticator) SetPageAddress(address string) {
	g.pageEndpoint.Store(&endpoint{address, time.Now()})
}

// Reload reads the files again. After an error the previous identities remain valid.
func (g *Authenticator) Reload() error {
	k := &identityIndex{tokens: map[string]Identity{}, certificates: map[string]Identity{}}
	if g.config.Identities != "" {
		all, err := ReadFile(g.config.Identities)
		if err != nil {
			return err
		}
		for _, i := range all {
			k.add(i)
		}
	}
	if g.config.TokenFile != "" {
		token, err := ReadToken(g.config.TokenFile)
		if err != nil {
			return err
		}
		if err := checkTokenLength(token, g.config.TokenFile); err != nil {
			return err
		}
		k.add(Identity{Name: "token_file", Role: Operate, SHA256: hashToken(token), Shared: true})
	}
	if g.config.Own != nil {
		token, err := g.config.Own.Read()
		if err != nil {
			return err
		}
		if err := checkTokenLength(token, g.config.Own.File); err != nil {
			return err
		}
		hash := sha256.Sum256([]byte(token))
		k.ownHash = &hash
		k.tokens[hashToken(token)] = ownIdentity
	}
	g.identities.Store(k)
	return nil
}

func checkTokenLength(token, file string) error {
	if len(token) < minToken {
		return fmt.Errorf(
			"read bearer token: %s has a token of %d characters: use at least %d, such as those of openssl rand -hex 16",
			file, len(token), minToken)
	}
	return nil
}

func (k *identityIndex) add(i Identity) {
	if i.SHA256 != "" {
		k.tokens[strings.ToLower(i.SHA256)] = i
	}
	if i.Certificate != "" {
		k.certificates[i.Certificate] = i
	}
	if !i.Expires.IsZero() && (k.nextExpiry.IsZero() || i.Expires.Before(k.nextExpiry)) {
		k.nextExpiry = i.Expires
	}
}

// RequiresAuth reports whether callers must identify themselves.
func (g *Authenticator) RequiresAuth() bool {
	return g.config.TokenFile != "" || g.config.Identities != "" || g.config.Own != nil
}

// HasOnlyOwnToken reports whether only the token of the data folder identifies callers.
func (g *Authenticator) HasOnlyOwnToken() bool {
	return g.config.Own != nil && g.config.TokenFile == "" && g.config.Identities == ""
}

// Files returns the files that Reload reads.
func (g *Authenticator) Files() []string {
	own := ""
	if g.config.Own != nil {
		own = g.config.Own.File
	}
	return nonEmpty(g.config.TokenFile, g.config.Identities, own)
}

func nonEmpty(files ...string) []string {
	return slices.DeleteFunc(files, func(f string) bool { return f == "" })
}

// Expires returns when the next identity expires; zero if none does.
func (g *Authenticator) Expires() time.Time { return g.identities.Load().nextExpiry }

// UnauthenticatedError reports that a caller is not identified.
type UnauthenticatedError struct {
	Message, Do string
	Retryable   bool // the same caller is identified if it calls again
}

func (e *UnauthenticatedError) Error() string { return e.Message + ": " + e.Do }

// Identify identifies a caller by the authorization headers of the call, else by the verified certificate. It looks up
// hashes, so that its duration reveals nothing about a token. It returns *UnauthenticatedError for an unknown caller.
func (g *Authenticator) Identify(authorization []string, verified *x509.Certificate) (Identity, error) {
	return g.identify(authorization, verified, false)
}

// IdentifyOpenCall is Identify for a call that was identified when it started, at any earlier time.
func (g *Authenticator) IdentifyOpenCall(authorization []string, verified *x509.Certificate) (Identity, error) {
	return g.identify(authorization, verified, true)
}

// identify is Identify, or IdentifyOpenCall for an open call.
func (g *Authenticator) identify(authorization []string, verified *x509.Certificate, open bool) (Identity, error) {
	if verified != nil && time.Now().After(verified.NotAfter) { // it was valid at the start of the connection
		return Identity{}, &UnauthenticatedError{Message: "the certificate of the connection has expired on " +
			verified.NotAfter.Format(time.DateOnly), Do: "connect with a new certificate"}
	}
	if !g.RequiresAuth() {
		who := Identity{Role: Operate}
		if g.config.Certificates && verified != nil {
			who.Name = verified.Subject.CommonName
		}
		return who, nil
	}
	k := g.identities.Load()
	if k.ownHash == nil { // clients sign calls to any daemon on this machine
		authorization = slices.DeleteFunc(slices.Clone(authorization), func(v string) bool {
			scheme, _, _ := strings.Cut(v, " ")
			return strings.EqualFold(scheme, SignedScheme)
		})
	}
	found, ok, stale := g.identifyByHeaders(k, authorization, open)
	if len(authorization) == 0 {
		found, ok = k.identifyByCertificate(verified)
	}
	if ok && (found.Expires.IsZero() || !time.Now().After(found.Expires)) {
		return found, nil
	}
	unknown := &UnauthenticatedError{Message: "the call has no bearer token",
		Do: "send the header authorization: Bearer TOKEN with a token of the daemon (loaderd token create)"}
	if g.HasOnlyOwnToken() {
		unknown.Do = ownTokenAdvice
	}
	switch {
	case ok:
		unknown.Message = "identity " + found.Name + " has expired on " + found.Expires.Format(time.DateOnly)
		unknown.Do = "create another one (loaderd token create)"
	case stale:
		unknown.Message, unknown.Do = "the call's signature is too old, or from before the daemon's start", "call again"
		unknown.Retryable = true
	case len(authorization) > 0 && g.HasOnlyOwnToken():
		unknown.Message = "the call's token or signing key is not the token of this daemon"
	case len(authorization) > 0:
		unknown.Message = "the call's bearer token is wrong"
	case verified != nil && len(k.certificates) > 0:
		unknown.Message = "no identity matches a name in the call's certificate"
	}
	return Identity{}, unknown
}

// identifyByHeaders returns the identity of the last header that has one. stale reports that the signature of the last
// signed header is no longer fresh, so that it identifies no caller.
func (g *Authenticator) identifyByHeaders(k *identityIndex, authorization []string,
	open bool) (found Identity, ok, stale bool) {
	for _, v := range authorization {
		scheme, value, _ := strings.Cut(v, " ")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(scheme, "bearer"):
			if i, is := k.tokens[hashToken(value)]; is {
				found, ok = i, true
			} else if k.ownHash != nil && g.isSessionToken(*k.ownHash, value) {
				found, ok = ownIdentity, true
			}
		case strings.EqualFold(scheme, SignedScheme):
			flight := g.flightEndpoint.Load()
			if made, is := flight.verifySignature(*k.ownHash, purposeCall, value); is {
				if stale = !open && !flight.isFresh(made, callLifetime); !stale {
					found, ok = ownIdentity, true
				}
			}
		}
	}
	return found, ok, stale
}

// identifyByCertificate returns the identity of the first name of a verified certificate that has one.
func (k *identityIndex) identifyByCertificate(verified *x509.Certificate) (Identity, bool) {
	if verified == nil {
		return Identity{}, false
	}
	for _, name := range certificateNames(verified) {
		if i, is := k.certificates[name]; is && name != "" {
			return i, true
		}
	}
	return Identity{}, false
}

// ownTokenAdvice is the advice for an unknown caller of a daemon that requires the token of its data folder.
const ownTokenAdvice = "the token is in flight.token of the daemon's data folder, for its user: run clients and " +
	"commands in the folder where the daemon was started, or set the data folder with LOADERD_STREAM__DIR or --daemon, " +
	"or the token with token= or --token-file; open a page with loaderd page"

// ownIdentity is the identity of a caller with the token of the data folder.
var ownIdentity = Identity{Role: Operate, Shared: true}
