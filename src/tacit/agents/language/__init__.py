"""Language models that write short texts, adapters that steer them, and public judges of texts. All is public: frozen
weights, vocabularies, lengths. The parameters of an adapter are released values."""
