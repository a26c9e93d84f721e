package auth

import (
	"crypto/hmac"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// sessionPrefix is the prefix of the tokens of logged-in pages.
const sessionPrefix = "page_"

// sessionLifetime is the maximum duration of a page's session. It also ends with the daemon and with the token.
const sessionLifetime = 7 * 24 * time.Hour

// LogIn returns a bearer token for a page, for a code of SignPage. Each code is valid once.
func (g *Authenticator) LogIn(code string) (token string, err error) {
	refused := &UnauthenticatedError{Message: "the link of the page was already used, has expired, or " +
		"belongs to another daemon",
		Do: "create another one with loaderd page"}
	k := g.identities.Load()
	if k.ownHash == nil {
		return "", refused
	}
	page := g.pageEndpoint.Load()
	made, ok := page.verifySignature(*k.ownHash, purposePage, code)
	if !ok || !page.isFresh(made, pageCodeLifetime) || !g.useCode(made) {
		return "", refused
	}
	until := strconv.FormatInt(time.Now().Add(sessionLifetime).Unix(), 10)
	return sessionPrefix + until + "." + base64.RawURLEncoding.EncodeToString(g.sessionMAC(*k.ownHash, until)), nil
}

// useCode records that a code has been used, until the code is too old. It reports whether this is its first use.
func (g *Authenticator) useCode(made time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for m := range g.usedCodes {
		if time.Since(m) > pageCodeLifetime+maxClockSkew {
			delete(g.usedCodes, m)
		}
	}
	if g.usedCodes[made] {
		return false
	}
	g.usedCodes[made] = true
	return true
}

// sessionMAC returns the MAC of a page's token. It is specific to this process and to the own token.
func (g *Authenticator) sessionMAC(own [32]byte, until string) []byte {
	return mac(own, "session", g.sessionSecret, until)
}

// isSessionToken reports whether a token is a valid one of LogIn.
func (g *Authenticator) isSessionToken(own [32]byte, token string) bool {
	until, text, _ := strings.Cut(strings.TrimPrefix(token, sessionPrefix), ".")
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !strings.HasPrefix(token, sessionPrefix) || time.Now().Unix() > end {
		return false
	}
	sent, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && hmac.Equal(sent, g.sessionMAC(own, until))
}
