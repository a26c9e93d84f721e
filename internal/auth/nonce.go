package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// nonceBytes is the minimum length of a nonce to sign.
const nonceBytes = 8

// SignNonce proves that a client has a token without sending it: it returns a MAC of the server's nonce, keyed with the
// token's SHA-256. It is nil for a nonce that is too short.
func SignNonce(token string, nonce []byte) []byte {
	if len(nonce) < nonceBytes {
		return nil
	}
	return signNonce(sha256.Sum256([]byte(token)), nonce)
}

// VerifyNonce reports whether a signature in unpadded base64 (URL alphabet) is equal to that of SignNonce, by the
// SHA-256 of the token.
func VerifyNonce(signature string, hash [32]byte, nonce []byte) bool {
	mac, err := base64.RawURLEncoding.DecodeString(signature)
	return err == nil && len(nonce) >= nonceBytes && hmac.Equal(mac, signNonce(hash, nonce))
}

func signNonce(key [32]byte, nonce []byte) []byte {
	m := hmac.New(sha256.New, key[:])
	m.Write([]byte("loaderd nats\x00"))
	m.Write(nonce)
	return m.Sum(nil)
}
