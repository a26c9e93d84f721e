package auth

import "net"

// IsExposed reports whether other machines can reach an address, host:port. It is false for an invalid address.
func IsExposed(address string) bool {
	_, _, err := net.SplitHostPort(address)
	return err == nil && !IsLoopback(address)
}

// IsLoopback reports whether only this machine can reach an address, host:port.
func IsLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
