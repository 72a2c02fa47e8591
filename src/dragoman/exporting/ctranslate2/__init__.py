"""Models as folders of CTranslate2: `mapping` says what it can hold and puts our weights in its places."""
