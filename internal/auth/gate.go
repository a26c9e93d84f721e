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
	Own *KeptToken
	// Certificates reports that every caller has a verified certificate. Without identities all of them may do
	// everything.
	Certificates bool
}

// Gate authenticates callers. It is safe for concurrent use.
type Gate struct {
	config Config
	known  atomic.Pointer[known]
	random string // of this process, for the tokens of pages
	// flight and page are the addresses of the servers that signatures of the own token are for.
	flight, page atomic.Pointer[endpoint]

	mu   sync.Mutex
	used map[time.Time]bool // codes of pages, by creation time
}

// known are the identities of one read of the files.
type known struct {
	tokens, certificates map[string]Identity // by the token's hash; by name
	own                  *[32]byte           // hash of the own token
	soonest              time.Time           // when the next one expires; zero means never
}

// Open reads the files of a configuration.
func Open(c Config) (*Gate, error) {
	g := &Gate{config: c, random: Random(), used: map[time.Time]bool{}}
	return g, g.Reload()
}

// ServesFlight and ServesPage record the addresses of the daemon's servers, from now on.
func (g *Gate) ServesFlight(address string) { g.flight.Store(&endpoint{address, time.Now()}) }
func (g *Gate) ServesPage(address string)   { g.page.Store(&endpoint{address, time.Now()}) }

// Reload reads the files again. After an error the previous identities remain valid.
func (g *Gate) Reload() error {
	k := &known{tokens: map[string]Identity{}, certificates: map[string]Identity{}}
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
		if err := longEnough(token, g.config.TokenFile); err != nil {
			return err
		}
		k.add(Identity{Name: "token_file", Role: Operate, SHA256: hashOf(token), Shared: true})
	}
	if g.config.Own != nil {
		token, err := g.config.Own.Read()
		if err != nil {
			return err
		}
		if err := longEnough(token, g.config.Own.File); err != nil {
			return err
		}
		hash := sha256.Sum256([]byte(token))
		k.own = &hash
		k.tokens[hashOf(token)] = ownIdentity
	}
	g.known.Store(k)
	return nil
}

func longEnough(token, file string) error {
	if len(token) < minToken {
		return fmt.Errorf(
			"read bearer token: %s has a token of %d characters: use %d at least, as openssl rand -hex 16 makes them",
			file, len(token), minToken)
	}
	return nil
}

func (k *known) add(i Identity) {
	if i.SHA256 != "" {
		k.tokens[strings.ToLower(i.SHA256)] = i
	}
	if i.Certificate != "" {
		k.certificates[i.Certificate] = i
	}
	if !i.Expires.IsZero() && (k.soonest.IsZero() || i.Expires.Before(k.soonest)) {
		k.soonest = i.Expires
	}
}

// Asks reports whether callers must identify themselves.
func (g *Gate) Asks() bool {
	return g.config.TokenFile != "" || g.config.Identities != "" || g.config.Own != nil
}

// OwnOnly reports whether only the token of the data folder identifies callers.
func (g *Gate) OwnOnly() bool {
	return g.config.Own != nil && g.config.TokenFile == "" && g.config.Identities == ""
}

// Files returns the files that Reload reads.
func (g *Gate) Files() []string {
	own := ""
	if g.config.Own != nil {
		own = g.config.Own.File
	}
	return given(g.config.TokenFile, g.config.Identities, own)
}

func given(files ...string) []string {
	return slices.DeleteFunc(files, func(f string) bool { return f == "" })
}

// Expires returns when the next identity expires; zero if none does.
func (g *Gate) Expires() time.Time { return g.known.Load().soonest }

// UnknownError reports that a caller is not identified.
type UnknownError struct {
	Message, Do string
	Again       bool // the same caller is identified if it calls again
}

func (e *UnknownError) Error() string { return e.Message + ": " + e.Do }

// Identify identifies a caller by the authorization headers of the call, else by the verified certificate. It looks
// up hashes, so that its duration reveals nothing about a token. It returns *UnknownError for an unknown caller.
func (g *Gate) Identify(authorization []string, verified *x509.Certificate) (Identity, error) {
	return g.identify(authorization, verified, false)
}

// IdentifyOpen is Identify for a call that was identified when it started, at any earlier time.
func (g *Gate) IdentifyOpen(authorization []string, verified *x509.Certificate) (Identity, error) {
	return g.identify(authorization, verified, true)
}

// identify is Identify, or IdentifyOpen for an open call.
func (g *Gate) identify(authorization []string, verified *x509.Certificate, open bool) (Identity, error) {
	if verified != nil && time.Now().After(verified.NotAfter) { // it was valid at the start of the connection
		return Identity{}, &UnknownError{Message: "the certificate of the connection has expired on " +
			verified.NotAfter.Format(time.DateOnly), Do: "connect with a new one"}
	}
	if !g.Asks() {
		who := Identity{Role: Operate}
		if g.config.Certificates && verified != nil {
			who.Name = verified.Subject.CommonName
		}
		return who, nil
	}
	k := g.known.Load()
	if k.own == nil { // clients sign calls to any daemon on this machine
		authorization = slices.DeleteFunc(slices.Clone(authorization), func(v string) bool {
			scheme, _, _ := strings.Cut(v, " ")
			return strings.EqualFold(scheme, SignedScheme)
		})
	}
	found, ok, stale := g.byHeaders(k, authorization, open)
	if len(authorization) == 0 {
		found, ok = k.byCertificate(verified)
	}
	if ok && (found.Expires.IsZero() || !time.Now().After(found.Expires)) {
		return found, nil
	}
	unknown := &UnknownError{Message: "the call has no bearer token",
		Do: "send the header authorization: Bearer TOKEN with a token of the daemon's (loaderd token create)"}
	if g.OwnOnly() {
		unknown.Do = ownAdvice
	}
	switch {
	case ok:
		unknown.Message = "identity " + found.Name + " has expired on " + found.Expires.Format(time.DateOnly)
		unknown.Do = "make another one (loaderd token create)"
	case stale:
		unknown.Message, unknown.Do = "the call was signed too long ago, or before this daemon listened", "call again"
		unknown.Again = true
	case len(authorization) > 0 && g.OwnOnly():
		unknown.Message = "the call's token, or what it is signed with, is not the token of this daemon"
	case len(authorization) > 0:
		unknown.Message = "the call's bearer token is wrong"
	case verified != nil && len(k.certificates) > 0:
		unknown.Message = "no identity has a name of the call's certificate"
	}
	return Identity{}, unknown
}

// byHeaders returns the identity of the last header that has one. stale reports that the signature of the last signed
// header is no longer fresh, so that it identifies no caller.
func (g *Gate) byHeaders(k *known, authorization []string, open bool) (found Identity, ok, stale bool) {
	for _, v := range authorization {
		scheme, value, _ := strings.Cut(v, " ")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(scheme, "bearer"):
			if i, is := k.tokens[hashOf(value)]; is {
				found, ok = i, true
			} else if k.own != nil && g.inSession(*k.own, value) {
				found, ok = ownIdentity, true
			}
		case strings.EqualFold(scheme, SignedScheme):
			flight := g.flight.Load()
			if made, is := flight.verified(*k.own, forCall, value); is {
				if stale = !open && !flight.fresh(made, callLasts); !stale {
					found, ok = ownIdentity, true
				}
			}
		}
	}
	return found, ok, stale
}

// byCertificate returns the identity of the first name of a verified certificate that has one.
func (k *known) byCertificate(verified *x509.Certificate) (Identity, bool) {
	if verified == nil {
		return Identity{}, false
	}
	for _, name := range namesOf(verified) {
		if i, is := k.certificates[name]; is && name != "" {
			return i, true
		}
	}
	return Identity{}, false
}

// ownAdvice is the advice for an unknown caller of a daemon that requires the token of its data folder.
const ownAdvice = "the token is in flight.token of the daemon's data folder, for its user: run clients and commands " +
	"in the " +
	"folder where the daemon was started, or name the data folder by LOADERD_STREAM__DIR or --data-dir, or give the " +
	"token by " +
	"token= or --token-file; a page is opened by loaderd page"

// ownIdentity is the identity of a caller with the token of the data folder.
var ownIdentity = Identity{Role: Operate, Shared: true}
