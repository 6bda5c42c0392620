// Package others runs suites that nobody here wrote on the product.
package others
